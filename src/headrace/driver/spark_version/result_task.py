"""Runs the tasks of ResultTask.java, which write results without Python workers."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.spark_version.collect import SMALL_ROWS, collect_rdd
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


class TaskLimits(NamedTuple):
    """Limits of what a task returns or writes, in the order of ResultTask's constructor."""

    buffer_bytes: int
    """Bytes that each of the first tasks may return."""
    full_buffers: int
    """Number of the first tasks. Later ones may return less."""
    min_buffer_bytes: int
    """Bytes that any task may return."""
    batch_bytes: int
    """Maximum bytes of a batch of several rows."""
    rows: int
    """Rows after which a task may stop; -1: no limit."""
    bytes: int
    """Bytes after which a task may stop; -1: no limit."""


def run_result_tasks(
    rows: DataFrame,
    schema: bytes,
    location: str,
    *,
    is_local: bool,
    limits: TaskLimits,
    reported: ReportedTasks | None,
    limit: int | None,
) -> list[bytes]:
    """Run the query of a DataFrame, and return the reports of its tasks in order.

    Args:
        schema: The stored schema as an IPC message.
        location: Directory of the result, as Hadoop reads it.
        is_local: Whether `location` is a plain path.
        reported: Receives the reports, without rows, while the query runs.
        limit: What `find_limit` has returned.

    Raises what Spark raises.
    """
    session = rows.sparkSession
    bridge = Py4JBridge(session)
    hadoop = None
    if not is_local:
        # A SET for the data of a query must not move its result.
        conf = bridge.context.hadoopConfiguration()
        hadoop = bridge.type("org.apache.spark.util.SerializableConfiguration")(conf)
    accumulator = None if reported is None else reported.accumulator
    task_class = bridge.type("headrace.ResultTask")
    taken_rows = -1 if limit is None else limit
    row_type = rows._jdf.schema()  # noqa: SLF001 - see Py4JBridge
    task = task_class(row_type, taken_rows, schema, location, hadoop, *limits, accumulator)
    query = rows._jdf.queryExecution()  # noqa: SLF001 - see Py4JBridge
    if limit is None:
        reports = query.toRdd().toJavaRDD().mapPartitionsWithIndex(task, False)
        return collect_rdd(RDD(reports, session.sparkContext, NoOpSerializer()))
    partitions = query.executedPlan().child().execute().toJavaRDD()
    reports = partitions.mapPartitionsWithIndex(task, False)
    collected = task_class.collectFirst(reports, limit)
    # Py4J reads the end of a Java iterator as an exception, which PySpark converts in 60 calls.
    return [bytes(collected.get(index)) for index in range(collected.size())]


def find_limit(rows: DataFrame) -> int | None:
    """Return the LIMIT of a query that reads one partition after another, or None.

    Tasks together may return more rows.
    """
    plan = rows._jdf.queryExecution().executedPlan()  # noqa: SLF001 - see Py4JBridge
    if plan.nodeName() != "CollectLimit" or plan.offset() != 0:
        return None
    limit: int = plan.limit()
    return limit if 0 <= limit <= SMALL_ROWS else None


def find_hadoop_location(session: SparkSession, location: str) -> str | None:
    """Return a URI as Hadoop has to read it, or None if Hadoop does not know its scheme."""
    files = HadoopFiles(session, conf=Py4JBridge(session).context.hadoopConfiguration())
    return files.to_hadoop(location) if files.knows_scheme(location) else None
