"""What a driver reads from its Spark application: streaming queries, and progress by job tag."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import wait_until

from headrace.driver.spark import Spark
from headrace.errors import DriverLost
from headrace.model.statement import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_running_streaming_queries_are_counted(
    driver_spark: Spark, spark: SparkSession
) -> None:
    assert driver_spark.count_streams() == 0
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        assert driver_spark.count_streams() == 1
    finally:
        query.stop()
    assert driver_spark.count_streams() == 0


def test_a_stopped_application_counts_as_a_lost_driver(
    driver_spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_spark, "has_stopped", lambda: True)
    with pytest.raises(DriverLost, match="was stopped"):
        driver_spark.count_streams()


def test_an_application_that_pyspark_has_forgotten_has_stopped(
    driver_spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not driver_spark.has_stopped()
    monkeypatch.setattr(driver_spark.context, "_jsc", None)
    assert driver_spark.has_stopped()


def test_progress_sums_up_the_jobs_with_the_tag_and_no_others(
    driver_spark: Spark, spark: SparkSession, tmp_path: Path
) -> None:
    assert driver_spark.progress.read("st_none") is None
    source, target = str(tmp_path / "in"), str(tmp_path / "out")
    spark.range(0, 1000, 1, 3).write.parquet(source)
    spark.sparkContext.addJobTag("st_tagged")
    try:
        rows = spark.read.parquet(source).repartition(2)
        rows.where("id % 10 > 0").write.parquet(target)
    finally:
        spark.sparkContext.removeJobTag("st_tagged")
    spark.range(10).write.format("noop").mode("append").save()
    # Spark's listener bus delivers its events with a delay.
    progress = wait_until(
        lambda: _find_complete(driver_spark.progress.read("st_tagged")),
        what="all tasks and stages are counted",
    )
    assert progress.jobs >= 1
    assert progress.stages_done == progress.stages_total >= 2
    assert progress.tasks_done == progress.tasks_total >= 4
    assert (progress.tasks_active, progress.tasks_failed) == (0, 0)
    assert (progress.rows_read, progress.rows_written) == (1000, 900)
    size = sum(file.stat().st_size for file in Path(target).glob("part-*"))
    assert progress.bytes_written == size
    assert progress.bytes_read > 0
    assert progress.bytes_read != size


def test_tasks_count_as_active_before_the_next_heartbeat_of_an_executor(
    driver_spark: Spark, spark: SparkSession
) -> None:
    four_seconds = "reflect('java.lang.Thread', 'sleep', 4000L + id * 0)"

    def run() -> None:
        spark.sparkContext.addJobTag("st_slow")
        rows = spark.range(0, 2, 1, 2).selectExpr(four_seconds)
        rows.write.format("noop").mode("append").save()

    def count_active() -> int:
        progress = driver_spark.progress.read("st_slow")
        return progress.tasks_active if progress is not None else -1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        # The tasks end long before the next heartbeat, which comes every ten seconds.
        wait_until(lambda: count_active() == 2, what="both tasks are active")
    finally:
        thread.join()
    wait_until(lambda: count_active() == 0, what="no task is active")


def _find_complete(progress: Progress | None) -> Progress | None:
    """Return the progress if it has all rows, and the end of each stage, which follows them."""
    if progress is None or progress.rows_written < 900:
        return None
    return progress if progress.stages_done == progress.stages_total else None
