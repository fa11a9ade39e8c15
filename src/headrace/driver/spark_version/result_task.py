"""Runs the tasks of ResultTask.java, which write results without Python workers."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.spark_version.collect import collect_rdd, open_message_rdd
from headrace.driver.spark_version.hadoop_files import HadoopFiles


class ReportedTasks:
    """Receives the report of each task of a query, once, when Spark accepts its result."""

    def __init__(self, session: SparkSession) -> None:
        self.accumulator: Any = Py4JBridge(session).context.collectionAccumulator()
        self._received = 0

    def read_new(self) -> list[bytes]:
        """Return the reports that have arrived since the last call."""
        values = self.accumulator.value()
        new = [bytes(values.get(index)) for index in range(self._received, values.size())]
        self._received += len(new)
        return new


def run_result_tasks(
    rows: DataFrame,
    schema: bytes,
    location: str,
    *,
    is_local: bool,
    limits: tuple[int, int, int, int, int, int],
    reported: ReportedTasks | None,
) -> list[bytes]:
    """Run the query of a DataFrame, and return the reports of its tasks in order.

    Args:
        schema: The stored schema as an IPC message.
        location: Directory of the result, as Hadoop reads it.
        is_local: Whether `location` is a plain path.
        limits: The six numbers of the constructor of ResultTask, in its order.
        reported: Receives the reports, without rows, while the query runs.

    Raises what Spark raises.
    """
    session = rows.sparkSession
    bridge = Py4JBridge(session)
    hadoop = None
    if not is_local:
        conf = bridge.state.newHadoopConf()
        hadoop = bridge.type("org.apache.spark.util.SerializableConfiguration")(conf)
    accumulator = None if reported is None else reported.accumulator
    task = bridge.type("headrace.ResultTask")(schema, location, hadoop, *limits, accumulator)
    messages = open_message_rdd(rows)
    reports = messages._jrdd.mapPartitionsWithIndex(task, False)  # noqa: SLF001 - see Py4JBridge
    return collect_rdd(RDD(reports, session.sparkContext, NoOpSerializer()))


def find_hadoop_location(session: SparkSession, location: str) -> str | None:
    """Return a URI as Hadoop has to read it, or None if Hadoop does not know its scheme."""
    bridge = Py4JBridge(session)
    found = HadoopFiles(session).to_hadoop(location)
    system = bridge.type("org.apache.hadoop.fs.FileSystem")
    try:
        system.getFileSystemClass(found.partition(":")[0], bridge.state.newHadoopConf())
    except Py4JError:
        return None
    return found
