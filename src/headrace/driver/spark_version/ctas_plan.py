"""Detection of a CTAS in a statement, and its execution with another target.

Spark's own parser and analyser decide whether a text is a CTAS. Headrace copies the plan with
another table name and never changes the text, so that errors refer to the user's text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.bridge import (
    EXECUTE_IMMEDIATE,
    IDENTIFIER_CLAUSE,
    SCRIPT,
    Py4JBridge,
    analysed_plan,
    class_name,
    compile_java,
    option_value,
    parse_plan,
    plan_class_name,
)
from headrace.driver.spark_version.catalogs import TablePath
from headrace.driver.spark_version.parameters import Binding, frame_of_plan

# Class names of Spark's plans.
_CTAS = "CreateTableAsSelect"
_RTAS = "ReplaceTableAsSelect"
_CREATING = {_CTAS, _RTAS, IDENTIFIER_CLAUSE}
_V1_COMMANDS = {"CreateDataSourceTableAsSelectCommand", "CreateHiveTableAsSelectCommand"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The table that Spark writes the rows of a CTAS to. It can differ from the user's table."""

    path: TablePath
    location: str | None = None
    """URI that overrides the LOCATION clause. None keeps the clause."""
    properties: dict[str, str] = field(default_factory=dict)
    """Table properties in addition to those of the statement."""
    replaces: bool = False
    """Whether Spark runs the statement as a replacement. Otherwise Spark creates a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ctas:
    """A `CREATE [OR REPLACE] TABLE … AS SELECT` whose names and query Spark has resolved."""

    session: SparkSession
    plan: Any
    """Parsed plan. For a replacement, this is the plan of the CREATE TABLE instead."""
    analysed: Any
    """Analysed plan, with the resolved target and query."""
    path: TablePath
    ignore_if_exists: bool
    replaces: bool
    """True for `CREATE OR REPLACE TABLE` and `REPLACE TABLE`."""
    must_exist: bool
    """True for `REPLACE TABLE` without `CREATE OR`."""
    provider: str | None
    location: str | None
    is_streaming: bool
    """Whether the query reads a stream."""
    bind: Binding
    """Binds the parameters of the statement to a plan."""
    is_session_catalog: bool
    """Whether Spark's built-in catalog creates the table, in one of Spark's own formats."""

    @property
    def properties(self) -> dict[str, str]:
        """Table properties of the TBLPROPERTIES clause."""
        return Py4JBridge(self.session).map_of(self.plan.tableSpec().properties())

    @property
    def catalog_class(self) -> str:
        """Java class of the catalog, unless it is Spark's built-in one."""
        return class_name(self.analysed.name().catalog())

    @property
    def query(self) -> DataFrame:
        """The SELECT of the statement."""
        return frame_of_plan(self.session, self.analysed.query())

    def read_query(self) -> DataFrame:
        """Return the SELECT of the statement, analysed again. Raises what Spark raises.

        The first analysis has listed the files of the tables. The files can have changed since,
        while the statement waited for its write lock.
        """
        return frame_of_plan(self.session, self.bind(self.plan.query()))

    def write_to(self, target: WriteTarget, rows: DataFrame | None = None) -> DataFrame:
        """Run the CTAS with another target and, optionally, with other rows.

        Raises the errors of Spark.
        """
        jvm = Py4JBridge(self.session)
        # Spark analyses the query again. The first analysis has listed the files of the tables, and
        # the statement may have waited for its write lock since.
        plan = compile_java(jvm.root, "ParsedPlan").retarget(
            self.plan,
            json.dumps(target.path.parts),
            target.location,
            json.dumps(target.properties),
            None if rows is None else analysed_plan(rows),
            target.replaces,
            target.replaces and not self.must_exist,
        )
        return frame_of_plan(self.session, self.bind(plan))


def build_ctas(session: SparkSession, create: str, query: str) -> Ctas:
    """Return the CTAS of a `CREATE [OR REPLACE] TABLE …` and a query that is parsed on its own.

    Positions in errors refer to the text of the query.

    Raises:
        PySparkException: Spark rejects the statement.
    """
    jvm = Py4JBridge(session)
    parser = jvm.state.sqlParser()
    parsed = parser.parsePlan(f"{create} AS SELECT 1")
    plan_class = plan_class_name(parsed)
    flag = parsed.orCreate() if plan_class == _RTAS else parsed.ignoreIfExists()
    plan = _copy_plan(
        jvm, plan_class, parsed, parsed.name(), parser.parsePlan(query), parsed.tableSpec(), flag
    )
    ctas = describe_ctas(session, plan, lambda unbound: unbound)
    assert ctas is not None
    return ctas


def describe_ctas(session: SparkSession, parsed_plan: Any, bind: Binding) -> Ctas | None:
    """Analyse a parsed statement and describe its CTAS.

    Returns:
        None if the statement is not a CTAS.

    Raises:
        PySparkException: Spark rejects the statement.
    """
    plan, kind = parsed_plan, plan_class_name(parsed_plan)
    if kind not in _CREATING:
        return None
    jvm = Py4JBridge(session)
    if kind == _RTAS:
        # Spark's analyser rejects REPLACE TABLE in the session catalog: analyse a CREATE TABLE.
        plan = _as_create_plan(jvm, plan)
    analysed = analyse(jvm, bind(plan))
    command = plan_class_name(analysed)
    is_session_catalog = command in _V1_COMMANDS
    if not is_session_catalog and command not in {_CTAS, _RTAS}:
        return None
    path = _v1_path(analysed, command) if is_session_catalog else _v2_path(analysed)
    if kind == IDENTIFIER_CLAUSE:
        parsed_plan = plan.planBuilder().apply(jvm.sequence(path.parts), plan.children())
        kind = plan_class_name(parsed_plan)
        plan = _as_create_plan(jvm, parsed_plan)
    replaces = kind == _RTAS
    spec = plan.tableSpec()
    return Ctas(
        session=session,
        plan=plan,
        analysed=analysed,
        path=path,
        ignore_if_exists=plan.ignoreIfExists(),
        replaces=replaces,
        must_exist=replaces and not parsed_plan.orCreate(),
        provider=option_value(spec.provider()),
        location=option_value(spec.location()),
        is_streaming=analysed.query().isStreaming(),
        is_session_catalog=is_session_catalog,
        bind=bind,
    )


def analyse(jvm: Py4JBridge, plan: Any) -> Any:
    """Return a parsed plan as Spark analyses it, without running a command in it."""
    skip = jvm.singleton("org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    return jvm.state.executePlan(plan, skip).analyzed()


def v1_path(table: Any) -> TablePath:
    """Return the path of a CatalogTable of Spark."""
    return identified_path(table.identifier())


def identified_path(identifier: Any) -> TablePath:
    """Return the path of a TableIdentifier of Spark with a database."""
    catalog = option_value(identifier.catalog()) or "spark_catalog"
    return TablePath(catalog, (identifier.database().get(),), identifier.table())


def may_create_table(session: SparkSession, plan: Any) -> bool:
    """Return whether a script or an EXECUTE IMMEDIATE may run a CTAS.

    Spark runs such a CTAS itself, so that it cannot be staged. The answer is True if an EXECUTE
    IMMEDIATE takes its text from a variable, because the text is unknown before it runs.
    """
    if plan_class_name(plan) not in {SCRIPT, EXECUTE_IMMEDIATE}:
        return False
    return any(_plan_may_create_table(session, part) for part in plan_parts(plan))


def plan_parts(plan: Any) -> Iterator[Any]:
    """Yield a plan and all its descendants.

    A script's handlers are included, although Spark's CompoundBody does not list them as children.
    For a statement of a script, only the parsed plan itself is yielded.
    """
    if plan_class_name(plan) == "SingleStatement":
        yield plan.parsedPlan()
        return
    yield plan
    groups = [plan.children()]
    if plan_class_name(plan) == SCRIPT:
        groups.append(plan.handlers())
    # Not `list_of`: a caller that has found a part looks at no further ones.
    for group in groups:
        for index in range(group.size()):
            yield from plan_parts(group.apply(index))


def find_immediate_text(plan: Any) -> str | None:
    """Return the text of an EXECUTE IMMEDIATE, or None if it comes from variables."""
    text = plan.sqlStmtStr()
    return str(text.value().toString()) if plan_class_name(text) == "Literal" else None


def _as_create_plan(jvm: Py4JBridge, plan: Any) -> Any:
    """Return a CREATE TABLE plan for a plan that may be a replacement."""
    if plan_class_name(plan) == _CTAS:
        return plan
    return _copy_plan(jvm, _CTAS, plan, plan.name(), plan.query(), plan.tableSpec(), False)


def _copy_plan(
    jvm: Py4JBridge, plan_class: str, source: Any, name: Any, query: Any, spec: Any, flag: bool
) -> Any:
    """Return a plan of that class. `flag` is IF NOT EXISTS of a CTAS, and OR CREATE of an RTAS."""
    return jvm.type(f"org.apache.spark.sql.catalyst.plans.logical.{plan_class}")(
        name, source.partitioning(), query, spec, source.writeOptions(), flag, source.isAnalyzed()
    )


def _v1_path(analysed: Any, command: str) -> TablePath:
    table = analysed.table() if command.startswith("CreateData") else analysed.tableDesc()
    return v1_path(table)


def _v2_path(analysed: Any) -> TablePath:
    resolved = analysed.name()
    identifier = resolved.identifier()
    return TablePath(resolved.catalog().name(), tuple(identifier.namespace()), identifier.name())


def _plan_may_create_table(session: SparkSession, plan: Any) -> bool:
    if plan_class_name(plan) != EXECUTE_IMMEDIATE:
        return plan_class_name(plan) in _CREATING
    text = find_immediate_text(plan)
    if text is None:
        return True
    try:
        inner = parse_plan(session, text)
    except PySparkException:
        # Spark reports the syntax error when it runs the statement.
        return False
    return any(_plan_may_create_table(session, part) for part in plan_parts(inner))
