"""Detection of an INSERT into a table of files, from Spark's analysed plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import TablePath
from headrace.driver.ctas.detect import plan_class_name, plan_parts
from headrace.driver.parameters import Binding
from headrace.driver.py4j_bridge import Py4JBridge

# Class names of Spark's plans.
_INSERT = "InsertIntoStatement"
_WITH = "UnresolvedWith"
_FILES = "InsertIntoHadoopFsRelationCommand"
_WRITES = {
    _INSERT,
    "InsertIntoDir",
    "LoadData",
    "DeleteFromTable",
    "UpdateTable",
    "MergeIntoTable",
    # Its text may be unknown before it runs.
    "UnresolvedExecuteImmediate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """An INSERT into a table of files, whose names and query Spark has resolved."""

    session: SparkSession
    command: Any
    """Spark's InsertIntoHadoopFsRelationCommand."""
    path: TablePath
    overwrites: bool


def describe_insert(session: SparkSession, parsed_plan: Any, bind: Binding) -> Insert | None:
    """Analyse a parsed statement, and describe its INSERT.

    Returns:
        None if the statement is no INSERT into a table of files that Spark writes itself.

    Raises:
        PySparkException: Spark rejects the statement.
    """
    if not _is_insert(parsed_plan):
        return None
    jvm = Py4JBridge(session)
    skip = jvm.singleton("org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    command = jvm.state.executePlan(bind(parsed_plan), skip).analyzed()
    if plan_class_name(command) != _FILES or command.catalogTable().isEmpty():
        return None
    identifier = command.catalogTable().get().identifier()
    catalog = identifier.catalog()
    path = TablePath(
        str(catalog.get()) if catalog.isDefined() else "spark_catalog",
        (str(identifier.database().get()),),
        str(identifier.table()),
    )
    overwrites = str(command.mode().toString()) == "Overwrite"
    return Insert(session=session, command=command, path=path, overwrites=overwrites)


def _is_insert(parsed_plan: Any) -> bool:
    """Return whether a parsed statement is one INSERT."""
    plan = parsed_plan
    while plan_class_name(plan) == _WITH:
        plan = plan.child()
    return plan_class_name(plan) == _INSERT


def may_write_rows(parsed_plan: Any) -> bool:
    """Return whether a parsed statement, or a statement inside of it, may write rows."""
    return any(plan_class_name(part) in _WRITES for part in plan_parts(parsed_plan))
