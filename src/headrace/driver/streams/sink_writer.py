"""The contract of sinks: what a query asks of each one, and the form that most sinks share.

A sink is described in `model/stream_providers.py`. `sinks.py` finds its writer. A sink with a
behaviour of its own has a subclass of `SinkWriter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.driver.streams.classify import BatchErrors
from headrace.grammar.clauses import DeclaredColumn
from headrace.grammar.stream_clauses import OutputMode, StreamTrigger, TriggerKind
from headrace.grammar.stream_statements import SaveStream
from headrace.model.stream_providers import CHECKPOINT_OPTION, find_sink
from headrace.model.stream_query import DesiredQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a query writes: the clauses of CREATE SINK and SAVE STREAM together."""

    provider: str
    name: str
    """Name of the sink or the table in SAVE STREAM, as SQL."""
    options: Mapping[str, str]
    """Options of the provider, without those of Headrace."""
    path: str | None
    """Directory of the rows, for a sink of files."""
    partitioned_on: tuple[str, ...]
    columns: tuple[DeclaredColumn, ...] | None
    """Columns that CREATE SINK declares."""

    def find_option(self, name: str) -> str:
        """Return the value of a required option, whatever the case of its key."""
        return next(value for key, value in self.options.items() if key.lower() == name.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRun:
    """One run of a streaming query that writes to a sink."""

    desired: DesiredQuery
    command: SaveStream
    errors: BatchErrors
    """Keeps the error of a batch: pass each function for `foreachBatch` through `watch`."""
    epoch: int
    """Epoch of the driver, for names of staging tables."""


class SinkWriter:
    """Writes rows to a sink. This class passes them to the data source with the sink's name."""

    takes_batches = True
    """Whether the rows of a job without a stream can go to the sink."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def check(self, rows: DataFrame) -> None:
        """Raise InvalidStream or AnalysisException if the sink cannot take these rows.

        The session has the jars of the sink.
        """

    def encode(self, rows: DataFrame) -> tuple[DataFrame, dict[str, str]]:
        """Return the rows as the data source takes them, and the options of the data source."""
        return rows, dict(self.target.options)

    def prepare(self, rows: DataFrame, run: SinkRun) -> Callable[[], StreamingQuery]:
        """Check the rows of a streaming frame, and return what starts the query.

        The checks change nothing outside of the session.
        """
        rows, options = self.encode(rows)
        writer = make_writer(rows, run)
        if self.target.partitioned_on:
            writer = writer.partitionBy(*self.target.partitioned_on)
        if self.target.path is not None:
            writer = writer.option("path", self.target.path)
        return writer.format(self.target.provider).options(**options).start

    def append(self, rows: DataFrame) -> None:
        """Append the rows of a batch frame. Raises InvalidStream and the errors of Spark."""
        rows, options = self.encode(rows)
        writer = rows.write.format(self.target.provider).mode("append").options(**options)
        if self.target.partitioned_on:
            writer = writer.partitionBy(*self.target.partitioned_on)
        if self.target.path is not None:
            writer = writer.option("path", self.target.path)
        writer.save()

    def clear(self, session: SparkSession, query_id: str) -> None:
        """Delete what the drivers of a query that has ended have staged.

        Args:
            query_id: Headrace's id of the query.
        """


def make_writer(rows: DataFrame, run: SinkRun) -> DataStreamWriter:
    """Return the writer of a query, with its name, output mode, trigger and checkpoint."""
    desired = run.desired
    mode = choose_mode(run.command, desired.spec.sink)
    writer = rows.writeStream.queryName(desired.name).outputMode(mode.lower())
    writer = _set_trigger(writer, run.command.trigger)
    if desired.spec.checkpoint is not None:
        writer = writer.option(CHECKPOINT_OPTION, desired.spec.checkpoint)
    return writer


def choose_mode(command: SaveStream, provider: str) -> OutputMode:
    """Return the output mode of a query."""
    return command.output_mode or OutputMode(find_sink(provider).modes[0])


def _set_trigger(writer: DataStreamWriter, trigger: StreamTrigger | None) -> DataStreamWriter:
    if trigger is None:
        return writer
    interval = "" if trigger.interval is None else f"{trigger.interval.milliseconds} milliseconds"
    setters: dict[TriggerKind, Callable[[], DataStreamWriter]] = {
        TriggerKind.INTERVAL: lambda: writer.trigger(processingTime=interval),
        TriggerKind.ONCE: lambda: writer.trigger(once=True),
        TriggerKind.AVAILABLE_NOW: lambda: writer.trigger(availableNow=True),
        TriggerKind.CONTINUOUS: lambda: writer.trigger(continuous=interval),
    }
    return setters[trigger.kind]()
