"""The sinks that a streaming query writes to."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.streaming.query import StreamingQuery

from headrace.driver.failures import InvalidStream
from headrace.driver.spark_version.streams import find_batch_source, publish_memory_view
from headrace.driver.streams.classify import BatchErrors
from headrace.driver.streams.connectors import check_connector, check_provider
from headrace.driver.streams.sink_writer import SinkRun, SinkWriter, Target
from headrace.driver.streams.sources import select_columns
from headrace.grammar.clauses import override_options, qualified_name_to_sql
from headrace.grammar.parse import parse
from headrace.grammar.stream_clauses import StreamTrigger, TriggerKind
from headrace.grammar.stream_statements import CreateSink, SaveStream
from headrace.model.connector_options import KAFKA_PREFIX, KAFKA_SINK
from headrace.model.stream_providers import (
    CHECKPOINT_OPTION,
    CONTINUOUS_SOURCES,
    FORMAT_OPTION,
    RETRY_PREFIXES,
    SINKS,
    find_sink,
)
from headrace.model.stream_query import DesiredQuery, QuerySpec

_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
_KAFKA_WRITING = {name.lower() for name in KAFKA_SINK}
_KAFKA_COLUMNS = {"key", "value", "topic", "partition", "headers"}


class KafkaSinkWriter(SinkWriter):
    """Writes a record for each row."""

    def encode(self, rows: DataFrame) -> tuple[DataFrame, dict[str, str]]:
        """Return rows with the columns of Kafka's sink, and the options of the sink itself."""
        options = self.target.options
        by_key = {key.lower(): value for key, value in options.items()}
        writing = {key: value for key, value in options.items() if _is_of_kafka(key)}
        encoding = {
            key: value
            for key, value in options.items()
            if key not in writing and key.lower() != FORMAT_OPTION
        }
        names = {name.casefold() for name in rows.columns}
        if "topic" not in by_key and "topic" not in names:
            raise InvalidStream("kafka needs the option topic, or a column topic in the query.")
        default = "raw" if "value" in names else "json"
        format_ = by_key.get(FORMAT_OPTION, default).lower()
        if format_ == "raw":
            return rows, writing
        kept = [name for name in rows.columns if name.casefold() in _KAFKA_COLUMNS - {"value"}]
        body = F.struct(*(F.col(f"`{name}`") for name in rows.columns if name not in kept))
        if format_ == "avro":
            check_connector(rows.sparkSession, "avro")
            value = to_avro(body)
        else:
            value = (F.to_json if format_ == "json" else F.to_csv)(body, encoding)
        return rows.select(*(F.col(f"`{name}`") for name in kept), value.alias("value")), writing


class MemorySinkWriter(SinkWriter):
    """Keeps the rows in a temporary view."""

    takes_batches = False

    def prepare(self, rows: DataFrame, run: SinkRun) -> Callable[[], StreamingQuery]:
        start = super().prepare(rows, run)

        def start_memory() -> StreamingQuery:
            query = start()
            try:
                publish_memory_view(rows.sparkSession, run.desired.name)
            except Exception:
                query.stop()
                raise
            return query

        return start_memory


def open_sink(spec: QuerySpec, command: SaveStream) -> SinkWriter:
    """Return the writer of the sink of a query.

    Raises the errors of the package that adds the sink, if its writer cannot be loaded.
    """
    target = find_target(spec, command)
    name = find_sink(target.provider).writer
    writer: type[SinkWriter] = SinkWriter if name is None else resolve_name(name)
    return writer(target)


def find_target(spec: QuerySpec, command: SaveStream) -> Target:
    """Return where a query writes."""
    commands = (parse(text).command for text in spec.definitions)
    sink = next((each for each in commands if isinstance(each, CreateSink)), None)
    options = override_options(() if sink is None else sink.options, command.options)
    return Target(
        provider=spec.sink,
        name=qualified_name_to_sql(command.target),
        options={key: value for key, value in options if not _is_of_headrace(key)},
        path=spec.path,
        partitioned_on=command.partitioned_on or (() if sink is None else sink.partitioned_on),
        columns=None if sink is None else sink.columns,
    )


def prepare_rows(frame: DataFrame, sink: SinkWriter) -> DataFrame:
    """Return the rows of a frame that go to a sink, after all checks of the sink.

    Raises InvalidStream and AnalysisException.
    """
    target = sink.target
    rows = frame if target.columns is None else select_columns(frame, target.columns)
    _check_partitions(rows, target)
    check_sink(rows.sparkSession, target.provider)
    sink.check(rows)
    return rows


def check_sink(session: SparkSession, provider: str) -> None:
    """Raise InvalidStream if the session lacks the jars of a sink, or if it is no data source."""
    sink = find_sink(provider)
    if sink.is_listed:
        check_connector(session, provider, sink.package)
        return
    hint = f"To write to a table: TO TABLE {provider}." if "." in provider else ""
    check_provider(session, provider, SINKS, hint=hint)


def prepare_query(
    frame: DataFrame,
    desired: DesiredQuery,
    command: SaveStream,
    errors: BatchErrors,
    *,
    epoch: int,
) -> Callable[[], StreamingQuery]:
    """Check a query that writes the rows of a streaming frame, and return what starts it.

    The checks change nothing outside of the session. What starts the query raises PySparkException
    if Spark refuses the query.

    Args:
        errors: Keeps the error of a batch.
        epoch: Epoch of the driver, for names of staging tables.

    Raises:
        InvalidStream: A column is missing, or the sink cannot take the rows.
        PySparkException: Spark refuses the rows.
    """
    sink = open_sink(desired.spec, command)
    rows = prepare_rows(frame, sink)
    check_trigger(rows, command.trigger)
    session = rows.sparkSession
    if desired.spec.checkpoint is None:
        # Spark would keep a checkpoint that the next run could not use.
        session.conf.unset(_CHECKPOINTS)
    run = SinkRun(desired=desired, command=command, errors=errors, epoch=epoch)
    return sink.prepare(rows, run)


def _check_partitions(rows: DataFrame, target: Target) -> None:
    known = {name.casefold() for name in rows.columns}
    for name in target.partitioned_on:
        if name.casefold() not in known:
            raise InvalidStream(
                f"PARTITIONED ON names the column {name}, which the query does not have. Columns:"
                f" {', '.join(rows.columns)}."
            )


def check_trigger(rows: DataFrame, trigger: StreamTrigger | None) -> None:
    """Raise InvalidStream for TRIGGER CONTINUOUS over a source that only has batches.

    Spark's own error does not name such a source if it is one of DataSource V1.
    """
    if trigger is None or trigger.kind is not TriggerKind.CONTINUOUS:
        return
    source = find_batch_source(rows)
    if source is not None:
        raise InvalidStream(
            f"TRIGGER CONTINUOUS cannot read {source}, which only has batches. Sources that can"
            f" be read continuously: {', '.join(CONTINUOUS_SOURCES)}."
        )


def _is_of_kafka(key: str) -> bool:
    return key.lower().startswith(KAFKA_PREFIX) or key.lower() in _KAFKA_WRITING


def _is_of_headrace(key: str) -> bool:
    return key.lower().startswith(RETRY_PREFIXES) or key.lower() == CHECKPOINT_OPTION.lower()
