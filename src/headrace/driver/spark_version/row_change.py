"""Detection of a statement that changes the rows of one table, from Spark's analysed plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from headrace.driver.spark_version.bridge import (
    Py4JBridge,
    class_name,
    compile_java,
    plan_class_name,
)
from headrace.driver.spark_version.catalogs import TablePath
from headrace.driver.spark_version.ctas_plan import (
    analyse,
    identified_path,
    option_value,
    plan_parts,
    v1_path,
)
from headrace.driver.spark_version.file_insert import HIVE_FORMAT, LOAD, SPARK_FORMAT
from headrace.driver.spark_version.parameters import Binding

# Class names of Spark's parsed plans.
_WITH = "UnresolvedWith"
_DML = {"InsertIntoStatement", "LoadData", "DeleteFromTable", "UpdateTable", "MergeIntoTable"}
_WRITES = {*_DML, "InsertIntoDir"}
_EXECUTE_IMMEDIATE = "UnresolvedExecuteImmediate"
_IDENTIFIER_CLAUSE = "PlanWithUnresolvedIdentifier"
_SCRIPT = "CompoundBody"
# Class names of analysed plans.
_DELTA = {"UpdateCommand", "DeleteCommand", "MergeIntoCommand"}
_V2 = {
    "DeltaDynamicPartitionOverwriteCommand",
    "AppendData",
    "OverwriteByExpression",
    "OverwritePartitionsDynamic",
    "ReplaceData",
    "WriteDelta",
    "DeleteFromTable",
}
_ROW_LEVEL = {"DeleteFromTable", "ReplaceData", "WriteDelta"}
_ALIAS = "SubqueryAlias"
_RELATION = "DataSourceV2Relation"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A statement that changes the rows of one table, whose names and query Spark has resolved."""

    path: TablePath
    catalog_class: str | None
    """Java class of the catalog. None for a table of files in the session catalog."""
    command: Any
    """Spark's analysed command."""


def describe_row_change(session: SparkSession, parsed_plan: Any, bind: Binding) -> RowChange | None:
    """Analyse a parsed statement, and describe how it changes the rows of a table.

    Returns:
        None if the statement does something else, or if its table is in no catalog.

    Raises:
        PySparkException: Spark rejects the statement.
    """
    if not _is_dml(parsed_plan):
        return None
    jvm = Py4JBridge(session)
    command = analyse(jvm, bind(parsed_plan))
    kind = plan_class_name(command)
    if kind == LOAD:
        return RowChange(path=identified_path(command.table()), catalog_class=None, command=command)
    if kind in {SPARK_FORMAT, HIVE_FORMAT, *_DELTA}:
        table = command.table() if kind == HIVE_FORMAT else option_value(command.catalogTable())
        if table is None:
            return None
        path = v1_path(table)
        catalog_class = class_name(jvm.catalog(path.catalog)) if kind in _DELTA else None
        return RowChange(path=path, catalog_class=catalog_class, command=command)
    return _describe_v2(command) if kind in _V2 else None


def writes_rows(parsed_plan: Any) -> bool:
    """Return whether a parsed statement, or a statement inside of it, writes rows."""
    return _has_part(parsed_plan, _WRITES)


def may_write_rows(parsed_plan: Any) -> bool:
    """Return whether a parsed statement may write rows.

    The text of an EXECUTE IMMEDIATE may be unknown before it runs.
    """
    return _has_part(parsed_plan, {*_WRITES, _EXECUTE_IMMEDIATE})


def _has_part(parsed_plan: Any, kinds: set[str]) -> bool:
    # A statement of a script may itself be inside of a WITH clause.
    is_script = plan_class_name(parsed_plan) == _SCRIPT
    roots = plan_parts(parsed_plan) if is_script else [parsed_plan]
    return any(plan_class_name(part) in kinds for root in roots for part in plan_parts(root))


def _describe_v2(command: Any) -> RowChange | None:
    relation = command.table()
    while plan_class_name(relation) == _ALIAS:
        relation = relation.child()
    if plan_class_name(relation) != _RELATION:
        return None
    catalog, identifier = option_value(relation.catalog()), option_value(relation.identifier())
    if catalog is None or identifier is None:
        return None
    path = TablePath(str(catalog.name()), tuple(identifier.namespace()), str(identifier.name()))
    return RowChange(path=path, catalog_class=class_name(catalog), command=command)


def _is_dml(parsed_plan: Any) -> bool:
    """Return whether a parsed statement is one statement that changes rows."""
    plan = parsed_plan
    while plan_class_name(plan) == _WITH:
        plan = plan.child()
    # What IDENTIFIER('t') names is known after the analysis only.
    return plan_class_name(plan) in {*_DML, _IDENTIFIER_CLAUSE}


def may_delete_files(command: Any) -> bool:
    """Return whether an analysed command is a DELETE, UPDATE or MERGE, which may delete files."""
    return plan_class_name(command) in _ROW_LEVEL


def run_marked(session: SparkSession, command: Any, mark: dict[str, str]) -> DataFrame:
    """Run an analysed command with properties for the snapshots of Iceberg that it commits.

    Raises the errors of Spark.
    """
    jvm = Py4JBridge(session)
    properties = jvm.type("java.util.HashMap")()
    for key, value in mark.items():
        properties.put(key, value)
    rows = compile_java(jvm.root, "MarkedStatement").run(properties, jvm.session, command)
    return ClassicDataFrame(rows, session)


def find_write_mode(command: Any) -> Literal["append", "replace all"] | None:
    """Return how an analysed command changes the rows of a table; None for any other change."""
    kind = plan_class_name(command)
    if kind == "AppendData":
        return "append"
    if kind == "OverwriteByExpression" and _is_true(command.deleteExpr()):
        return "replace all"
    return None


def _is_true(condition: Any) -> bool:
    return plan_class_name(condition) == "Literal" and str(condition.value()) == "True"
