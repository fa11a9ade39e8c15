"""The tables that a statement reads and writes, from Spark's analysed plan."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.bridge import compile_java
from headrace.driver.spark_version.catalogs import TablePath
from headrace.model.lineage import MAX_COLUMNS, MAX_TABLES, TableUse
from headrace.model.materialized_view import MATERIALIZED_VIEW_PROPERTY

_LOG = logging.getLogger("headrace.driver")
_OPTIONS = (MATERIALIZED_VIEW_PROPERTY, MAX_TABLES, MAX_COLUMNS)
_TABLE_WORDS = re.compile(r"\b(from|table|view|insert|update|merge|execute|begin)\b", re.IGNORECASE)


def may_name_tables(text: str) -> bool:
    """Return whether a statement may read or write tables.

    The answer is no for a query without FROM, which therefore does not pay for a look at its plan.
    """
    return _TABLE_WORDS.search(text) is not None


def compile_lineage(session: SparkSession) -> None:
    """Compile the reader of plans, for later statements. May raise Py4JError."""
    _reader(session)


def list_tables_of_frame(frame: DataFrame) -> list[TableUse]:
    """Return the tables of a frame, or of the command that has returned it. May raise Py4JError."""
    reader = _reader(frame.sparkSession)
    return _parse(reader.ofFrame(frame._jdf, *_OPTIONS))  # noqa: SLF001 - not in PySpark's API


def list_tables_of_plan(
    session: SparkSession, plan: Any, written: TablePath | None = None
) -> list[TableUse]:
    """Return the tables of an analysed plan. May raise Py4JError.

    Args:
        written: The name of what the plan writes; None: that of the plan.
    """
    tables = _parse(_reader(session).ofPlan(plan, *_OPTIONS))
    if written is None:
        return tables
    name = {
        "catalog": written.catalog,
        "namespace": list(written.namespace),
        "name": written.table,
    }
    return [table.model_copy(update=name) if table.is_written else table for table in tables]


def find_location(session: SparkSession, path: str) -> str:
    """Return a path as a lineage names it. May raise Py4JError."""
    return str(_reader(session).locationOf(path))


def _reader(session: SparkSession) -> Any:
    return compile_java(session._jvm, "StatementLineage")  # noqa: SLF001 - as Py4JBridge does


def _parse(text: str) -> list[TableUse]:
    tables = []
    for table in json.loads(text):
        try:
            tables.append(TableUse.model_validate(table))
        except ValidationError as error:
            # A node would refuse the report of the whole statement.
            _LOG.info("a table is not in the lineage: %s", error.errors()[0]["msg"])
    return tables
