"""Tables from a bounded stream: a stream whose trigger ends it.

Spark's file sink first writes the rows of the stream to a directory. The sink's log counts each
batch exactly once, also after a retry. The table is then created from the complete directory, which
works with every catalog.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import TwoPhaseTable
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.streams import has_ended_by_itself
from headrace.errors import EndlessStream, StatementFailed, StreamStopped
from headrace.model.headrace_options import CTAS_TRIGGER, Trigger


class _StreamedRecord(BaseModel):
    """The record of a table from a stream, around the record of the table itself."""

    stream_location: str
    table: dict[str, Any]


class StreamedTable(TwoPhaseTable):
    """A two-phase table and the directory that holds the rows of its stream.

    The directory belongs to the transaction and is removed with the commit or the abort.
    """

    def __init__(self, table: TwoPhaseTable, stream_location: str, files: HadoopFiles) -> None:
        self._table = table
        self._stream_location = stream_location
        self._files = files
        self.write_target = table.write_target
        self.atomic = table.atomic
        self.note = table.note
        self.location = table.location
        self.commits_natively = table.commits_natively

    def begin(self) -> None:
        self._table.begin()

    def finish_write(self) -> None:
        self._table.finish_write()

    def is_published(self) -> bool:
        return self._table.is_published()

    def explain_commit_refusal(self, error: Exception) -> StatementFailed | None:
        return self._table.explain_commit_refusal(error)

    def commit(self) -> None:
        self._table.commit()
        self._files.remove(self._stream_location)

    def abort(self) -> None:
        self._table.abort()
        self._files.remove(self._stream_location)

    def to_record(self) -> dict[str, Any]:
        record = _StreamedRecord(
            stream_location=self._stream_location, table=self._table.to_record()
        )
        return record.model_dump()


def split_record(record: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the stream's directory and the record of the table itself.

    The directory is None if the table was not created from a stream. Raises ValidationError for a
    record that no `StreamedTable` has written.
    """
    if "stream_location" not in record:
        return None, record
    streamed = _StreamedRecord.model_validate(record, strict=True)
    return streamed.stream_location, streamed.table


def bounded_trigger(session: SparkSession) -> Trigger:
    """Return the configured trigger that ends the stream.

    Raises:
        EndlessStream: no trigger is configured.
        InvalidSetting: the configured value is not a trigger.
    """
    value = session.conf.get(CTAS_TRIGGER.key, None)
    trigger = None if value is None else CTAS_TRIGGER.parse(value)
    if trigger is None:
        raise EndlessStream(
            "The query reads a stream that never ends, so the table would never appear. To read the"
            " rows that are available when the statement starts, run: SET"
            f" {CTAS_TRIGGER.key} = available now"
        )
    return trigger


def run_to_end(stream: DataFrame, trigger: Trigger, location: str, name: str) -> DataFrame:
    """Run the stream until it ends, and return all its rows.

    Args:
        location: Directory for the rows and the checkpoint.
        name: Name of the streaming query.

    Raises:
        StreamStopped: the query was stopped before it had read all rows.
        StreamingQueryException: the query failed.
    """
    rows_location = f"{location}/rows"
    options = {"once": True} if trigger is Trigger.ONCE else {"availableNow": True}
    query = (
        stream.writeStream.queryName(name)
        .trigger(**options)
        .format("parquet")
        .option("path", rows_location)
        .option("checkpointLocation", f"{location}/checkpoint")
        .start()
    )
    query.awaitTermination()
    if not has_ended_by_itself(stream.sparkSession, query):
        raise StreamStopped(
            "The stream was stopped before it had read all rows, so the table was not created. Run"
            " the statement again."
        )
    return stream.sparkSession.read.schema(stream.schema).parquet(rows_location)
