"""What only drivers load: the rows of the source, the writer of the sink, and the catalog."""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.driver.ctas.iceberg import IcebergCatalog
from headrace.driver.failures import InvalidStream
from headrace.driver.streams.sink_writer import SinkRun, SinkWriter, make_writer
from headrace.grammar.stream_statements import CreateStream


def read_ticks(session: SparkSession, name: str, command: CreateStream) -> DataFrame:
    """Return `count` rows in each batch, whose number is in the column `tick`."""
    count = dict(command.options)["count"]
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", count).load()
    return rows.selectExpr("value AS tick")


class SpoolWriter(SinkWriter):
    """Writes each batch to a directory of its own, so that a batch that is repeated replaces it."""

    def check(self, rows: DataFrame) -> None:
        if not rows.columns:
            raise InvalidStream("The sink spool needs a column.")

    def prepare(self, rows: DataFrame, run: SinkRun) -> Callable[[], StreamingQuery]:
        folder = self.target.find_option("folder")

        def write(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").json(f"{folder}/{number}")

        return make_writer(rows, run).foreachBatch(run.errors.watch(write)).start

    def append(self, rows: DataFrame) -> None:
        rows.write.mode("append").json(self.target.find_option("folder"))


class AcmeCatalog(IcebergCatalog):
    """Tables of a catalog that is a subclass of Iceberg's."""

    kind = "acme"
