"""The tables, topics and files that a streaming query reads and writes, from its analysed plan."""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pydantic import ValidationError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.view_switch import path_of
from headrace.driver.spark_version.catalogs import NamedTable, TablePath
from headrace.driver.spark_version.lineage import find_location, list_tables_of_frame
from headrace.driver.streams.sink_writer import Target
from headrace.driver.streams.sinks import find_target
from headrace.driver.streams.supervised_query import measure
from headrace.grammar.stream_statements import SaveStream
from headrace.model.lineage import MAX_COLUMNS, MAX_STREAM_TABLES, LineageDirection, TableUse
from headrace.model.stream_query import DesiredQuery

_MAX_BYTES = 32 * 1024
"""Largest lineage of a query with the names of columns: all queries of a driver share a report."""
_LOG = logging.getLogger("headrace.driver.streams")


def list_stream_tables(
    rows: DataFrame, desired: DesiredQuery, command: SaveStream | None
) -> list[TableUse]:
    """Return what a query reads and writes, as far as Spark and its options name it.

    Args:
        command: The statement of the query; None: it refreshes a materialized view.
    """
    try:
        read = [each for each in list_tables_of_frame(rows) if not each.is_written]
        written = _find_written(rows.sparkSession, desired, command)
    except (Py4JError, PySparkException, ValidationError, OSError) as error:
        _LOG.warning("query %s: no lineage: %s", desired.name, type(error).__name__)
        return []
    if written is None:
        return _limit(read[:MAX_STREAM_TABLES])
    columns = {"columns": rows.columns[:MAX_COLUMNS]}
    omitted = {"columns_omitted": max(0, len(rows.columns) - MAX_COLUMNS)}
    written = written.model_copy(update=columns | omitted)
    return _limit([*read[: MAX_STREAM_TABLES - 1], written])


def _limit(tables: list[TableUse]) -> list[TableUse]:
    """Return tables without the names of columns if a report would become too large with them."""
    if measure(tables) <= _MAX_BYTES:
        return tables
    return [
        each.model_copy(
            update={"columns": [], "columns_omitted": len(each.columns) + each.columns_omitted}
        )
        for each in tables
    ]


def _find_written(
    session: SparkSession, desired: DesiredQuery, command: SaveStream | None
) -> TableUse | None:
    if command is None:
        assert desired.spec.view is not None
        return _use_table(path_of(desired.spec.view.rows))
    target = find_target(desired.spec, command)
    options = {key.lower(): value for key, value in target.options.items()}
    if command.to_table:
        return _use_table(NamedTable(session, target.name).path)
    if target.provider == "iceberg":
        return _use_table(NamedTable(session, target.find_option("path")).path)
    if (path := target.path or options.get("path")) is not None:
        return _use_place(find_location(session, path))
    return _find_remote(target, options)


def _find_remote(target: Target, options: dict[str, str]) -> TableUse | None:
    """Return the table of a database, or the topic, that a sink writes to; None: neither."""
    if target.provider == "jdbc":
        return _use_place(options["url"], options["dbtable"])
    if target.provider == "kafka" and "topic" in options:
        return _use_place(f"kafka://{options['kafka.bootstrap.servers']}", options["topic"])
    return None


def _use_table(path: TablePath) -> TableUse:
    return TableUse(
        direction=LineageDirection.WRITE,
        catalog=path.catalog,
        namespace=list(path.namespace),
        name=path.table,
    )


def _use_place(location: str, name: str | None = None) -> TableUse:
    return TableUse(direction=LineageDirection.WRITE, location=location, name=name)
