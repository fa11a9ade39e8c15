"""The sinks that a streaming query writes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.driver.failures import InvalidStream
from headrace.driver.py4j_bridge import Py4JBridge, plan_class_name
from headrace.driver.streams.classify import BatchErrors
from headrace.driver.streams.columns import select_columns
from headrace.driver.streams.connectors import (
    check_connector,
    check_jdbc_driver,
    check_provider,
)
from headrace.driver.streams.file_sink import check_file_columns, find_last_planned
from headrace.driver.streams.jdbc_sink import JdbcSink, with_driver
from headrace.driver.streams.table_sink import TableSink
from headrace.grammar.clauses import DeclaredColumn, override_options, qualified_name_to_sql
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_clauses import OutputMode, StreamTrigger, TriggerKind
from headrace.grammar.stream_statements import CreateSink, SaveStream
from headrace.model.stream_options import KAFKA_PREFIX, KAFKA_SINK
from headrace.model.stream_providers import (
    CHECKPOINT_OPTION,
    CONTINUOUS_SOURCES,
    FILE_SINKS,
    FORMAT_OPTION,
    RETRY_PREFIXES,
    SINKS,
    find_sink,
)
from headrace.model.stream_query import DesiredQuery, QuerySpec

_DATASET = "org.apache.spark.sql.classic.Dataset"


def publish_memory_view(session: SparkSession, name: str) -> None:
    """Show the view of a memory sink in the session of the driver's statements.

    Spark creates the view in the session of the query, which no statement sees.
    """
    jvm = Py4JBridge(session)
    view = session.table(quote_name(name))._jdf.queryExecution().analyzed()  # noqa: SLF001
    rows = view.collectLeaves().apply(0)
    driver_session = jvm.type("org.apache.spark.sql.classic.SparkSession").getDefaultSession()
    frame = jvm.singleton(_DATASET).ofRows(driver_session.get(), rows)
    frame.createOrReplaceTempView(quote_name(name))


_V1_SOURCES = {"StreamingRelation", "StreamingExecutionRelation"}
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
_KAFKA_WRITING = {name.lower() for name in KAFKA_SINK}
_KAFKA_COLUMNS = {"key", "value", "topic", "partition", "headers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a query writes: the clauses of CREATE SINK and SAVE STREAM together."""

    provider: str
    options: Mapping[str, str]
    """Options of the provider, without those of Headrace."""
    partitioned_on: tuple[str, ...]
    columns: tuple[DeclaredColumn, ...] | None
    """Columns that CREATE SINK declares."""

    def find_option(self, name: str) -> str:
        """Return the value of a required option, whatever the case of its key."""
        return next(value for key, value in self.options.items() if key.lower() == name.lower())


def find_target(spec: QuerySpec, command: SaveStream) -> Target:
    """Return where a query writes."""
    commands = (parse(text).command for text in spec.definitions)
    sink = next((each for each in commands if isinstance(each, CreateSink)), None)
    options = override_options(() if sink is None else sink.options, command.options)
    return Target(
        provider=spec.sink,
        options={key: value for key, value in options if not _is_of_headrace(key)},
        partitioned_on=command.partitioned_on or (() if sink is None else sink.partitioned_on),
        columns=None if sink is None else sink.columns,
    )


def prepare_rows(frame: DataFrame, target: Target) -> DataFrame:
    """Return the rows of a frame that go to a target, after all checks of the target.

    Raises InvalidStream and AnalysisException.
    """
    rows = frame if target.columns is None else select_columns(frame, target.columns)
    _check_partitions(rows, target)
    check_sink(rows.sparkSession, target.provider)
    if target.provider == "jdbc":
        check_jdbc_driver(rows.sparkSession, with_driver(target.options))
    if target.provider in FILE_SINKS:
        check_file_columns(rows, target.provider, target.partitioned_on)
    return rows


def check_sink(session: SparkSession, provider: str) -> None:
    """Raise InvalidStream if the session lacks the jars of a sink, or if it is no data source."""
    if find_sink(provider).is_listed:
        check_connector(session, provider)
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
    target = find_target(desired.spec, command)
    rows = prepare_rows(frame, target)
    check_trigger(rows, command.trigger)
    session = rows.sparkSession
    if desired.spec.checkpoint is None:
        # Spark would keep a checkpoint that the next run could not use.
        session.conf.unset(_CHECKPOINTS)
    if target.provider in {"table", "iceberg"}:
        table = find_table(session, command, target)

        def start_table() -> StreamingQuery:
            ordered = table.prepare(rows, target.partitioned_on)
            writer = _make_writer(ordered, desired, command, target)
            return table.start(writer, choose_mode(command, target.provider), errors)

        return start_table
    writer = _make_writer(rows, desired, command, target)
    if target.provider == "jdbc":

        def start_jdbc() -> StreamingQuery:
            planned = find_last_planned(session, desired.spec)
            sink = JdbcSink(target.options, desired, epoch, planned=planned)
            sink.clear(session)
            query = writer.foreachBatch(errors.watch(sink.write)).start()
            sink.bind(query.id)
            return query

        return start_jdbc
    if target.provider == "memory":
        return lambda: _start_memory(writer, session, desired.name)
    return writer.start


def _start_memory(writer: DataStreamWriter, session: SparkSession, name: str) -> StreamingQuery:
    query = writer.start()
    try:
        publish_memory_view(session, name)
    except Exception:
        query.stop()
        raise
    return query


def find_table(session: SparkSession, command: SaveStream, target: Target) -> TableSink:
    """Return the table that a query writes to. Raises InvalidStream."""
    if target.provider == "table":
        return TableSink(session, qualified_name_to_sql(command.target))
    table = TableSink(session, target.find_option("path"))
    table.check_is_iceberg()
    return table


def _make_writer(
    rows: DataFrame, desired: DesiredQuery, command: SaveStream, target: Target
) -> DataStreamWriter:
    provider = target.provider
    options = dict(target.options)
    if provider == "kafka":
        rows, options = encode_for_kafka(rows, options)
    writer = rows.writeStream.queryName(desired.name).outputMode(
        choose_mode(command, provider).lower()
    )
    writer = _set_trigger(writer, command.trigger)
    if desired.spec.checkpoint is not None:
        writer = writer.option(CHECKPOINT_OPTION, desired.spec.checkpoint)
    if provider in {"jdbc", "table"}:
        # The partitions of a table are those of its creation.
        return writer
    if target.partitioned_on:
        writer = writer.partitionBy(*target.partitioned_on)
    if desired.spec.path is not None:
        writer = writer.option("path", desired.spec.path)
    if provider == "iceberg":
        options = {key: value for key, value in options.items() if key.lower() != "path"}
    return writer.format(provider).options(**options)


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


def encode_for_kafka(rows: DataFrame, options: dict[str, str]) -> tuple[DataFrame, dict[str, str]]:
    """Return rows with the columns of Kafka's sink, and the options of the sink itself."""
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
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - not in PySpark's API
    for leaf in Py4JBridge(rows.sparkSession).list_of(plan.collectLeaves()):
        if plan_class_name(leaf) in _V1_SOURCES:
            raise InvalidStream(
                f"TRIGGER CONTINUOUS cannot read {leaf}, which only has batches. Sources that can"
                f" be read continuously: {', '.join(CONTINUOUS_SOURCES)}."
            )


def _is_of_kafka(key: str) -> bool:
    return key.lower().startswith(KAFKA_PREFIX) or key.lower() in _KAFKA_WRITING


def _is_of_headrace(key: str) -> bool:
    return key.lower().startswith(RETRY_PREFIXES) or key.lower() == CHECKPOINT_OPTION.lower()
