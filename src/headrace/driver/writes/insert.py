"""Detection of an INSERT into a table of files, from Spark's analysed plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headrace.driver.ctas.base import TablePath
from headrace.driver.ctas.detect import analyse, plan_class_name, plan_parts, v1_path
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

    path: TablePath
    command: Any
    """Spark's InsertIntoHadoopFsRelationCommand."""


def describe_insert(session: SparkSession, parsed_plan: Any, bind: Binding) -> Insert | None:
    """Analyse a parsed statement, and describe its INSERT.

    Returns:
        None if the statement is no INSERT into a table of files that Spark writes itself.

    Raises:
        PySparkException: Spark rejects the statement.
    """
    if not _is_insert(parsed_plan):
        return None
    command = analyse(Py4JBridge(session), bind(parsed_plan))
    if plan_class_name(command) != _FILES or command.catalogTable().isEmpty():
        return None
    return Insert(path=v1_path(command.catalogTable().get()), command=command)


def _is_insert(parsed_plan: Any) -> bool:
    """Return whether a parsed statement is one INSERT."""
    plan = parsed_plan
    while plan_class_name(plan) == _WITH:
        plan = plan.child()
    return plan_class_name(plan) == _INSERT


def may_write_rows(parsed_plan: Any) -> bool:
    """Return whether a parsed statement, or a statement inside of it, may write rows."""
    return any(plan_class_name(part) in _WRITES for part in plan_parts(parsed_plan))
