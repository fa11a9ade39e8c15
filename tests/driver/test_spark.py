"""The driver's Spark session as the driver looks at it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_until

from headrace.driver.progress import read_progress
from headrace.driver.spark import Spark
from headrace.model.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_streaming_queries_are_counted_while_they_run(spark: SparkSession) -> None:
    held = Spark.__new__(Spark)
    held.session = spark
    assert held.streams() == 0
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        assert held.streams() == 1
    finally:
        query.stop()
    assert held.streams() == 0


def test_progress_is_that_of_the_jobs_with_a_tag(spark: SparkSession, tmp_path: Path) -> None:
    held = Spark.__new__(Spark)
    held.session = spark
    assert read_progress(held, "st_none") is None
    places = [str(tmp_path / name) for name in ("in", "out")]
    spark.range(0, 1000, 1, 3).write.parquet(places[0])
    spark.sparkContext.addJobTag("st_tagged")
    try:
        spark.read.parquet(places[0]).repartition(2).write.parquet(places[1])
    finally:
        spark.sparkContext.removeJobTag("st_tagged")
    spark.range(10).write.format("noop").mode("append").save()
    # Spark's bus of events is a little behind.
    wait_until(lambda: _done(read_progress(held, "st_tagged")), what="all tasks are counted")
    found = read_progress(held, "st_tagged")
    assert found is not None
    assert found.jobs >= 1
    assert found.stages_done == found.stages_total >= 2
    assert found.tasks_done == found.tasks_total >= 4
    assert (found.tasks_active, found.tasks_failed) == (0, 0)
    assert (found.rows_read, found.rows_written) == (1000, 1000)
    assert found.bytes_read > 0
    assert found.bytes_written > 0


def test_tasks_that_have_just_begun_are_at_work(spark: SparkSession) -> None:
    """Long before an executor's next heartbeat, and though nothing else happens."""
    held = Spark.__new__(Spark)
    held.session = spark
    slow = "reflect('java.lang.Thread', 'sleep', 4000L + id * 0)"

    def run() -> None:
        spark.sparkContext.addJobTag("st_slow")
        spark.range(0, 2, 1, 2).selectExpr(slow).write.format("noop").mode("append").save()

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: _active(read_progress(held, "st_slow")) == 2, seconds=3, what="both are")
    thread.join()
    wait_until(lambda: _active(read_progress(held, "st_slow")) == 0, what="none is")


def _active(progress: Progress | None) -> int:
    return progress.tasks_active if progress is not None else -1


def _done(progress: Progress | None) -> bool:
    return progress is not None and progress.rows_written == 1000
