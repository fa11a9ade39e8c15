"""The sinks of batch queries: the rows are appended by Spark's DataFrame writer."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.driver.streams.invalid_stream import InvalidStream
from headrace.driver.streams.jdbc_staging import with_driver
from headrace.driver.streams.sinks import (
    Target,
    choose_mode,
    encode_for_kafka,
    find_table,
    find_target,
    prepare_rows,
)
from headrace.grammar.stream_clauses import OutputMode
from headrace.grammar.stream_statements import SaveStream
from headrace.model.stream_query import DesiredQuery, QuerySpec


def check_batch(frame: DataFrame, spec: QuerySpec, command: SaveStream) -> DataFrame:
    """Return the rows of a batch frame that go to the sink, after all checks of the sink.

    Raises InvalidStream and AnalysisException.
    """
    target = find_target(spec, command)
    if target.provider == "memory":
        raise InvalidStream(
            "The sink memory takes streams only, and the rows of the job are no stream. Write them"
            " to a table: TO TABLE t"
        )
    mode = choose_mode(command, target.provider)
    if mode is not OutputMode.APPEND:
        raise InvalidStream(
            f"OUTPUT MODE {mode} needs a stream, and the rows of the job are none. They are written"
            " once: leave out the output mode."
        )
    return prepare_rows(frame, target)


def write_batch(rows: DataFrame, desired: DesiredQuery, command: SaveStream) -> None:
    """Append rows, as `check_batch` returns them, to the sink of a query.

    Raises InvalidStream and the errors of Spark.
    """
    target = find_target(desired.spec, command)
    provider = target.provider
    if provider in {"table", "iceberg"}:
        table = find_table(rows.sparkSession, command, target)
        table.append(table.prepare(rows, target.partitioned_on))
        return
    options = dict(target.options)
    if provider == "kafka":
        rows, options = encode_for_kafka(rows, options)
    if provider == "jdbc":
        options = with_driver(options)
    _save(rows, desired.spec, target, options)


def _save(rows: DataFrame, spec: QuerySpec, target: Target, options: dict[str, str]) -> None:
    writer = rows.write.format(target.provider).mode("append").options(**options)
    if target.partitioned_on:
        writer = writer.partitionBy(*target.partitioned_on)
    if spec.path is not None:
        writer = writer.option("path", spec.path)
    writer.save()
