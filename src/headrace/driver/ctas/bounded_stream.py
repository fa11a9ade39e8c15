"""Tables from a bounded stream: a stream whose trigger ends it.

Spark's file sink first writes the rows of the stream to a directory. The sink's log counts each
batch exactly once, also after a retry. The table is then created from the complete directory, which
works with every catalog.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import TwoPhaseTable
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.errors import EndlessStream, StatementFailed
from headrace.model.ctas_options import TRIGGER_KEY, Trigger

_LOCATION, _TABLE = "stream_location", "table"
"""Keys of the record."""


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
        return {_LOCATION: self._stream_location, _TABLE: self._table.to_record()}


def split_record(record: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the stream's directory and the record of the table itself.

    The directory is None if the table was not created from a stream.
    """
    if _LOCATION in record:
        return record[_LOCATION], record[_TABLE]
    return None, record


def bounded_trigger(session: SparkSession) -> Trigger:
    """Return the configured trigger that ends the stream.

    Raises:
        EndlessStream: no trigger is configured.
        InvalidSetting: the configured value is not a trigger.
    """
    value = session.conf.get(TRIGGER_KEY, None)
    if value is None:
        raise EndlessStream(
            "The query reads a stream that never ends, so the table would never appear. Set"
            f" {TRIGGER_KEY} = 'available now' to read the rows that are available when the"
            " statement starts."
        )
    return Trigger.parse(str(value))


def run_to_end(stream: DataFrame, trigger: Trigger, location: str, name: str) -> DataFrame:
    """Run the stream until it ends, or until its query is stopped, and return all its rows.

    Args:
        location: Directory for the rows and the checkpoint.
        name: Name of the streaming query.

    Raises StreamingQueryException.
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
    return stream.sparkSession.read.schema(stream.schema).parquet(rows_location)
