"""The sinks `TO TABLE` and `iceberg`: exactly once through a table's own streaming write.

Any other table gets each batch by INSERT.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.driver.failures import InvalidStream
from headrace.driver.spark_version.catalogs import NamedTable
from headrace.driver.streams.classify import BatchErrors, BatchFunction
from headrace.driver.streams.sink_writer import (
    SinkRun,
    SinkWriter,
    choose_mode,
    make_writer,
)
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_clauses import OutputMode

_VIEW = "headrace_batch"


class TableSink:
    """One table that a query writes to. It is created if it does not exist."""

    def __init__(self, session: SparkSession, name: str) -> None:
        """Find where the session looks for the table. Raise the errors of Spark's parser.

        Args:
            name: Name of the table as SQL.
        """
        self._session = session
        self._name = name
        self._table = NamedTable(session, name)

    def check_is_iceberg(self) -> None:
        """Raise InvalidStream unless the table is, or would be, one of Iceberg."""
        if not self._table.is_of_iceberg:
            raise InvalidStream(
                f"The sink iceberg cannot write to {self._name}: the catalog"
                f" {self._table.catalog} is not an Iceberg catalog. Begin the option path with the"
                " name of one, or write TO TABLE."
            )

    def prepare(self, rows: DataFrame, partitioned_on: tuple[str, ...]) -> DataFrame:
        """Create the table for these rows unless it exists. Return the rows in its column order."""
        if not self._table.exists():
            _create_table(self._session, rows, self._name, partitioned_on)
        # A streaming write has no BY NAME: Iceberg refuses columns in another order.
        order = {
            field.name.casefold(): position
            for position, field in enumerate(self._session.table(self._name).schema.fields)
        }
        names = sorted(rows.columns, key=lambda name: order.get(name.casefold(), len(order)))
        return rows if names == rows.columns else rows.select(*map(quote_name, names))

    def start(
        self, writer: DataStreamWriter, mode: OutputMode, errors: BatchErrors
    ) -> StreamingQuery:
        """Start the query of prepared rows.

        Spark's file sink in a table of files would hide the rows of any INSERT from readers,
        because they then read the log of the sink only. Such a table therefore gets each batch by
        INSERT.
        """
        writes = self._table.find_streaming_write()
        if writes == "v2":
            return writer.toTable(self._name)
        if writes == "delta":
            # Delta has a sink of its own, and no streaming write of DataSource V2.
            return writer.format("delta").toTable(self._name)
        return writer.foreachBatch(errors.watch(_insert_into(self._name, mode))).start()

    def append(self, rows: DataFrame) -> None:
        """Append prepared rows of a batch frame. Raises the errors of Spark."""
        _insert_into(self._name, OutputMode.APPEND)(rows, 0)


class TableSinkWriter(SinkWriter):
    """Writes to the table that SAVE STREAM names."""

    def prepare(self, rows: DataFrame, run: SinkRun) -> Callable[[], StreamingQuery]:
        table = self._find_table(rows.sparkSession)

        def start() -> StreamingQuery:
            ordered = table.prepare(rows, self.target.partitioned_on)
            writer = self._set_options(make_writer(ordered, run))
            return table.start(writer, choose_mode(run.command, self.target.provider), run.errors)

        return start

    def append(self, rows: DataFrame) -> None:
        table = self._find_table(rows.sparkSession)
        table.append(table.prepare(rows, self.target.partitioned_on))

    def _find_table(self, session: SparkSession) -> TableSink:
        return TableSink(session, self.target.name)

    def _set_options(self, writer: DataStreamWriter) -> DataStreamWriter:
        # The partitions of a table are those of its creation.
        return writer


class IcebergSinkWriter(TableSinkWriter):
    """Writes to the Iceberg table that the option `path` names."""

    def _find_table(self, session: SparkSession) -> TableSink:
        table = TableSink(session, self.target.find_option("path"))
        table.check_is_iceberg()
        return table

    def _set_options(self, writer: DataStreamWriter) -> DataStreamWriter:
        if self.target.partitioned_on:
            writer = writer.partitionBy(*self.target.partitioned_on)
        if self.target.path is not None:
            writer = writer.option("path", self.target.path)
        options = {k: value for k, value in self.target.options.items() if k.lower() != "path"}
        return writer.format("iceberg").options(**options)


def _create_table(
    session: SparkSession, rows: DataFrame, name: str, partitioned_on: tuple[str, ...]
) -> None:
    columns = ", ".join(
        f"{quote_name(field.name)} {field.dataType.simpleString()}" for field in rows.schema.fields
    )
    partitions = ", ".join(map(quote_name, partitioned_on))
    clause = f" PARTITIONED BY ({partitions})" if partitions else ""
    session.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}){clause}")


def _insert_into(name: str, mode: OutputMode) -> BatchFunction:
    verb = "INSERT OVERWRITE" if mode is OutputMode.COMPLETE else "INSERT INTO"

    def write(batch: DataFrame, _number: int) -> None:
        session = batch.sparkSession
        batch.createOrReplaceTempView(_VIEW)
        session.sql(f"{verb} {name} BY NAME SELECT * FROM {_VIEW}")  # noqa: S608

    return write
