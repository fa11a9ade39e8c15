"""The scheduler pool of streaming queries."""

from __future__ import annotations

from pyspark.sql import SparkSession

_POOL = "headrace-streams"


def use_stream_pool(session: SparkSession) -> None:
    """Let the Spark jobs of this thread, and of the queries that it starts, use one FIFO pool.

    Under spark.scheduler.mode=FAIR, Spark shares the slots of its default pool by the number of
    running tasks, and breaks ties by the name of the stage. With more batches than slots, the
    stages whose names come last would wait for ever. A new pool serves the oldest batch first.
    """
    session.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
