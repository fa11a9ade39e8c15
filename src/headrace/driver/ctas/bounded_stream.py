"""The rows of a stream that ends, for a table that is created from all of them at once.

They are kept in Spark's own file sink first: its log of batches counts each once, whatever happens
meanwhile, and is only good where it was written. Then any catalog can be given them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas.base import TwoPhaseTable
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.errors import EndlessStream, StatementFailed
from headrace.model.trigger import KEY, Trigger

_PLACE, _TABLE = "stream", "table"


class StreamedTable(TwoPhaseTable):
    """A table whose rows are kept in a directory of the transaction's own until it is there."""

    def __init__(self, table: TwoPhaseTable, place: str, files: HadoopFiles) -> None:
        self._table = table
        self._place = place
        self._files = files
        self.destination = table.destination
        self.atomic = table.atomic
        self.location = table.location
        self.commits_natively = table.commits_natively

    def begin(self) -> None:
        self._table.begin()

    def seal(self) -> None:
        self._table.seal()

    def published(self) -> bool:
        return self._table.published()

    def refusal(self, error: Exception) -> StatementFailed | None:
        return self._table.refusal(error)

    def commit(self) -> None:
        self._table.commit()
        self._files.remove(self._place)

    def abort(self) -> None:
        self._table.abort()
        self._files.remove(self._place)

    def record(self) -> dict[str, Any]:
        return {_PLACE: self._place, _TABLE: self._table.record()}


def split_record(record: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Where the rows of a recorded table are kept, if it is a stream's; the table's own record."""
    if _PLACE in record:
        return record[_PLACE], record[_TABLE]
    return None, record


def bounded_trigger(session: SparkSession) -> Trigger:
    """The one that ends the stream. Raises EndlessStream where none is set, and InvalidSetting."""
    said = session.conf.get(KEY, None)
    if said is None:
        raise EndlessStream(
            "The query reads a stream, which never ends: its table would never appear. "
            f"With {KEY} = 'available now' it takes what is there when it starts, and ends."
        )
    return Trigger.of(str(said))


def run_to_end(stream: DataFrame, trigger: Trigger, place: str, name: str) -> DataFrame:
    """Runs the stream to its end, or until a query of that name is stopped; gives all its rows.

    Raises StreamingQueryException.
    """
    rows = f"{place}/rows"
    once = {"once": True} if trigger is Trigger.ONCE else {"availableNow": True}
    query = (
        stream.writeStream.queryName(name)
        .trigger(**once)
        .format("parquet")
        .option("path", rows)
        .option("checkpointLocation", f"{place}/checkpoint")
        .start()
    )
    query.awaitTermination()
    return stream.sparkSession.read.schema(stream.schema).parquet(rows)
