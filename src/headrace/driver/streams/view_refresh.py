"""The query that refreshes a materialized view by itself.

Three kinds of queries keep a view fresh:

- A stream without an aggregation appends its rows to the first generation, each batch once: Spark's
  file sink, Delta and Iceberg recognise a batch that runs again.
- A stream with an aggregation writes its complete result after each batch, as a new generation.
- A query without a stream runs at an interval and writes its result as a new generation. Spark's
  rate source is its clock, so that the supervisor treats it like any other query.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.driver.ctas.catalogs import list_catalogs
from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.ctas.view_switch import ViewSwitch, open_query, path_of, set_scope
from headrace.driver.failures import InvalidStream
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.streams import has_aggregation
from headrace.driver.streams.classify import BatchErrors
from headrace.driver.streams.file_sink import find_last_planned
from headrace.driver.streams.row_checks import StreamRowChecks
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.quoting import quote_name, quote_string
from headrace.model.materialized_view import (
    MATERIALIZED_VIEW_PROPERTY,
    REPLACED_AT_PROPERTY,
    RowStorage,
    generation_name,
)
from headrace.model.stream_providers import CHECKPOINT_OPTION, find_sink
from headrace.model.stream_query import DesiredQuery, RefreshedView

_BATCH_VIEW = "headrace_batch"


def open_view_rows(
    session: SparkSession, desired: DesiredQuery, command: CreateMaterializedView
) -> DataFrame:
    """Return the rows of the query of a view, whose streams the session has as views.

    Raises:
        InvalidStream: The name of the view belongs to another table.
        PySparkException: Spark refuses the rows.
    """
    view = desired.spec.view
    assert view is not None
    if view.rows.storage is RowStorage.REPLACEMENT:
        _check_owner(session, view)
    set_scope(session, view.rows.scope)
    return open_query(session, desired.spec.text, command)


def prepare_refresh(
    frame: DataFrame,
    desired: DesiredQuery,
    command: CreateMaterializedView,
    errors: BatchErrors,
    checks: StreamRowChecks,
) -> Callable[[], StreamingQuery]:
    """Return what starts a run of the query of a view.

    It raises PySparkException if Spark refuses the query.

    Args:
        frame: The rows that `open_view_rows` returns.
        errors: Keeps the error of a batch.
        checks: The expectations on the rows.

    Raises:
        InvalidExpectation: A condition is not a boolean expression over the columns.
        InvalidStream: The rows of the view are gone.
    """
    session, view, text = frame.sparkSession, desired.spec.view, desired.spec.text
    assert view is not None
    if not frame.isStreaming:
        ticks = session.readStream.format("rate").option("rowsPerSecond", 1).load()

        def refresh(batch: DataFrame, number: int) -> None:
            rows = open_query(batch.sparkSession, text, command)
            checks.count_write(
                number, rows, lambda counted: write_generation(counted, view, command)
            )

        return _prepare(ticks.writeStream, desired, view).foreachBatch(errors.watch(refresh)).start

    def write_batch(batch: DataFrame, _number: int) -> None:
        write_generation(batch, view, command)

    checked = checks.add_to(frame, partial(find_last_planned, session, desired.spec))
    writer = _prepare(checked.writeStream, desired, view)
    if has_aggregation(frame):
        return writer.outputMode("complete").foreachBatch(errors.watch(write_batch)).start
    return _prepare_append(session, writer, view)


def write_generation(
    rows: DataFrame, view: RefreshedView, command: CreateMaterializedView
) -> DataFrame:
    """Write rows as the next generation of a view, and switch the view to it.

    Return the frame of the statement that has written them. A run that ends in between leaves a
    table that no reader sees. A later generation removes it.
    """
    session, path = rows.sparkSession, path_of(view.rows)
    rows.createOrReplaceTempView(_BATCH_VIEW)
    clauses = f"{quote_string(MATERIALIZED_VIEW_PROPERTY)} = {quote_string(view.id)}"
    select = f"TBLPROPERTIES ({clauses}) AS SELECT * FROM {_BATCH_VIEW}"  # noqa: S608
    using = "" if command.format is None else f" USING {quote_name(command.format)}"
    if view.rows.storage is RowStorage.REPLACEMENT:
        _check_owner(session, view)
        return session.sql(f"CREATE OR REPLACE TABLE {path.sql_name}{using} {select}")
    if not using:
        using = f" USING {session.conf.get('spark.sql.sources.default')}"
    generations = _Generations(session, path, view)
    number, table = generations.choose_next()
    frame = session.sql(f"CREATE TABLE {table.sql_name}{using} {select}")
    ViewSwitch(session, path, view.id).switch_to(table)
    generations.drop_replaced(number)
    return frame


def _check_owner(session: SparkSession, view: RefreshedView) -> None:
    """Raise InvalidStream unless the table that a query replaces belongs to its view."""
    path = path_of(view.rows)
    catalogs = [each for each in list_catalogs(session) if each.catalog == path.catalog]
    if not any(each.find_view_id(path) == view.id for each in catalogs):
        raise InvalidStream(
            f"{path.sql_name} does not belong to the materialized view any more. Drop the"
            " materialized view and create it again."
        )


class _Generations:
    """The tables of the generations of one view, in Spark's own catalog."""

    def __init__(self, session: SparkSession, path: TablePath, view: RefreshedView) -> None:
        self._session = session
        self._path = path
        self._view = view
        self._catalog = SessionCatalog(session, path.catalog)
        self._v1_catalog = V1Catalog(session)

    def choose_next(self) -> tuple[int, TablePath]:
        """Return number and path of the next generation, at which no files remain."""
        number = max((each for each, _table in self._list_all()), default=0) + 1
        table = self._path.sibling(generation_name(self._path.table, number))
        # A driver that was lost while it wrote leaves files without a table.
        HadoopFiles(self._session).remove(self._v1_catalog.default_location(table))
        return number, table

    def drop_replaced(self, current: int) -> None:
        """Drop the generations that were replaced longer ago than the grace period.

        A table has the time of the switch as a property. A run that was lost between the switch and
        this call has not set it, so that the time begins now.
        """
        now = time.time()
        for number, table in self._list_own():
            if number >= current:
                continue
            replaced_at = self._v1_catalog.properties(table).get(REPLACED_AT_PROPERTY)
            if replaced_at is None:
                self._v1_catalog.set_property(table, REPLACED_AT_PROPERTY, str(now))
                replaced_at = str(now)
            if now - float(replaced_at) >= self._view.grace_seconds:
                self._v1_catalog.drop(table)

    def find_only(self) -> TablePath:
        """Return the table that the view selects from. Raise InvalidStream if it is gone."""
        switch = ViewSwitch(self._session, self._path, self._view.id)
        for _number, table in self._list_own():
            if switch.selects_from(table):
                return table
        raise InvalidStream(
            f"The rows of the materialized view {self._path.sql_name} are gone. Drop the view and"
            " create it again."
        )

    def _list_own(self) -> list[tuple[int, TablePath]]:
        return [
            (number, table)
            for number, table in self._list_all()
            if self._catalog.find_view_id(table) == self._view.id
        ]

    def _list_all(self) -> list[tuple[int, TablePath]]:
        return sorted(self._catalog.list_generations(self._path), key=lambda item: item[0])


def _prepare(
    writer: DataStreamWriter, desired: DesiredQuery, view: RefreshedView
) -> DataStreamWriter:
    writer = writer.queryName(desired.name)
    if desired.spec.checkpoint is not None:
        writer = writer.option(CHECKPOINT_OPTION, desired.spec.checkpoint)
    if view.interval_seconds is not None:
        milliseconds = round(view.interval_seconds * 1000)
        writer = writer.trigger(processingTime=f"{milliseconds} milliseconds")
    return writer


def _prepare_append(
    session: SparkSession, writer: DataStreamWriter, view: RefreshedView
) -> Callable[[], StreamingQuery]:
    path = path_of(view.rows)
    writer = writer.outputMode("append")
    if view.rows.storage is RowStorage.REPLACEMENT:
        return lambda: writer.toTable(path.sql_name)
    table = _Generations(session, path, view).find_only()
    catalog = V1Catalog(session)
    provider, location = catalog.find_format(table)
    sink = find_sink(provider)
    if sink.is_listed and not sink.is_file:
        return lambda: writer.format(provider).toTable(table.sql_name)
    # Readers of the table follow the log of this sink: a batch that runs again is there once.
    return writer.format(provider).option("path", location).start
