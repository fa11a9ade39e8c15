"""Runs the tasks of ResultTask.java, which write results without Python workers."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.spark_version.collect import collect_rdd, open_message_rdd


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
        location: Directory of the result.
        is_local: Whether `location` is a plain path.
        limits: The six numbers of the constructor of ResultTask, in its order.
        reported: Receives the reports, without rows, while the query runs.

    Raises what Spark raises.
    """
    session = rows.sparkSession
    bridge = Py4JBridge(session)
    hadoop = None
    if not is_local:
        configuration = bridge.context.hadoopConfiguration()
        hadoop = bridge.type("org.apache.spark.util.SerializableConfiguration")(configuration)
    accumulator = None if reported is None else reported.accumulator
    task = bridge.type("headrace.ResultTask")(schema, location, hadoop, *limits, accumulator)
    messages = open_message_rdd(rows)
    reports = messages._jrdd.mapPartitionsWithIndex(task, False)  # noqa: SLF001 - see Py4JBridge
    return collect_rdd(RDD(reports, session.sparkContext, NoOpSerializer()))


def has_file_system(session: SparkSession, location: str) -> bool:
    """Return whether Hadoop has a file system for the scheme of a URI."""
    bridge = Py4JBridge(session)
    system = bridge.type("org.apache.hadoop.fs.FileSystem")
    try:
        system.getFileSystemClass(location.partition(":")[0], bridge.context.hadoopConfiguration())
    except Py4JError:
        return False
    return True
