"""Checks of the target of a job: the table, its columns, the log of a sink of files."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.py4j_bridge import Py4JBridge, plan_class_name
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_statements import SaveStream
from headrace.model.job_messages import JobProblem
from headrace.model.stream_providers import find_sink
from headrace.model.stream_query import QuerySpec


def check_table(
    session: SparkSession, rows: DataFrame, command: SaveStream, created: Iterable[str]
) -> JobProblem | None:
    """Return why a table cannot receive the rows, or None. The message has the fix as SQL.

    Args:
        created: Statements that the job runs before its query, for example a CREATE TABLE.
    """
    if not command.to_table:
        return None
    name = qualified_name_to_sql(command.target)
    if session.catalog.tableExists(name):
        columns = {field.name.casefold() for field in session.table(name).schema.fields}
    else:
        found = _find_created(session, command.target, created)
        if found is None:
            columns_sql = _columns_to_sql(rows, set())
            return JobProblem(
                code="target_missing",
                message=f"The target table {name} does not exist. Create it, or add this to the"
                f" table definitions: CREATE TABLE {name} ({columns_sql})",
            )
        columns = found
    missing = _columns_to_sql(rows, columns)
    if not missing:
        return None
    return JobProblem(
        code="target_columns_missing",
        message=f"The target table {name} lacks columns of the job. Add them: ALTER TABLE {name}"
        f" ADD COLUMNS ({missing})",
    )


def check_output_mode(rows: DataFrame, command: SaveStream, spec: QuerySpec) -> None:
    """Raise AnalysisException if Spark cannot run the query in its output mode."""
    jvm = Py4JBridge(rows.sparkSession)
    mode = (command.output_mode or find_sink(spec.sink).modes[0]).capitalize()
    output_mode = getattr(jvm.type("org.apache.spark.sql.streaming.OutputMode"), mode)()
    checker = jvm.singleton("org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - not in PySpark's API
    checker.checkForStreaming(plan, output_mode)


def _find_created(
    session: SparkSession, target: tuple[str, ...], created: Iterable[str]
) -> set[str] | None:
    """Return the columns of the table that one of the statements creates, in lower case."""
    jvm = Py4JBridge(session)
    for statement in created:
        plan = jvm.state.sqlParser().parsePlan(statement)
        if plan_class_name(plan) != "CreateTable":
            continue
        parts = [str(part) for part in jvm.list_of(plan.name().nameParts())]
        if parts[-1].casefold() == target[-1].casefold():
            return {str(column.name()).casefold() for column in jvm.list_of(plan.columns())}
    return None


def _columns_to_sql(rows: DataFrame, present: set[str]) -> str:
    return ", ".join(
        f"{quote_name(field.name)} {field.dataType.simpleString()}"
        for field in rows.schema.fields
        if field.name.casefold() not in present
    )
