"""Jobs without a stream: their rows are written once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.driver.jobs.conftest import StartJob
from tests.support.streams import finish, read_rows
from tests.support.waiting import wait_until

from headrace.driver.streams.checkpoint_marker import MARKER
from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROWS = "execution_output = spark.range(3).selectExpr('id AS n', 'id = 1 AS is_one')"


def test_the_rows_of_a_batch_job_are_written_once(
    start_job: StartJob, spark: SparkSession, tmp_path: Path
) -> None:
    save, checkpoint = "SAVE STREAM job TO parquet PARTITIONED ON (is_one)", tmp_path / "run"
    for _start in range(2):
        run = start_job(save, code=ROWS, checkpoint=str(checkpoint))
        finish(run)
        assert run.find_new_epoch() == 0

    assert sorted(row["n"] for row in read_rows(spark.read.parquet(str(tmp_path / "default")))) == [
        *(0, 1, 2)
    ]
    files = {path.name for path in checkpoint.iterdir() if path.suffix != ".crc"}
    assert files == {"_finished", MARKER}
    finish(start_job(save, code=ROWS, checkpoint=str(tmp_path / "another")))
    assert spark.read.parquet(str(tmp_path / "default")).count() == 6


def test_a_batch_query_is_appended_to_a_table(start_job: StartJob, spark: SparkSession) -> None:
    try:
        spark.sql("CREATE TABLE batch_target (is_one BOOLEAN, n BIGINT) USING parquet")
        spark.sql("INSERT INTO batch_target VALUES (false, 100)")
        save = "SAVE STREAM job TO TABLE batch_target"
        finish(start_job(save, sql="SELECT id AS n, true AS is_one FROM range(2)"))

        assert sorted(row["n"] for row in read_rows(spark.table("batch_target"))) == [0, 1, 100]
    finally:
        spark.sql("DROP TABLE IF EXISTS batch_target")


@pytest.mark.parametrize("sink", ["console", "noop", "csv"])
def test_batch_rows_go_to_other_sinks(start_job: StartJob, sink: str) -> None:
    finish(start_job(f"SAVE STREAM job TO {sink}", code=ROWS))


@pytest.mark.parametrize(
    ("save", "message"),
    [
        ("SAVE STREAM job TO memory", "The sink memory takes streams only"),
        ("SAVE STREAM job TO noop OUTPUT MODE COMPLETE", "OUTPUT MODE COMPLETE needs a stream"),
        ("SAVE STREAM job TO csv PARTITIONED ON (x)", "PARTITIONED ON names the column x"),
    ],
)
def test_batch_rows_that_a_sink_cannot_take_are_refused_before_anything_is_written(
    start_job: StartJob, tmp_path: Path, save: str, message: str
) -> None:
    checkpoint = tmp_path / "run"
    with pytest.raises(RunFailed, match=message) as caught:
        start_job(save, code=ROWS, checkpoint=str(checkpoint))

    assert caught.value.is_permanent
    assert not checkpoint.exists()


def test_a_failed_write_is_repeated(start_job: StartJob, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run"
    with pytest.raises(RunFailed, match="broken row") as caught:
        finish(
            start_job(
                "SAVE STREAM job TO noop",
                sql="SELECT raise_error('broken row') AS e",
                checkpoint=str(checkpoint),
            )
        )

    assert not caught.value.is_permanent
    assert not (checkpoint / "_finished").exists()


def test_a_batch_run_stops_when_it_is_asked_to(
    start_job: StartJob, spark: SparkSession, tmp_path: Path
) -> None:
    code = "execution_output = spark.range(0, 10**12, 1, 2).selectExpr('sum(id) AS s')"
    checkpoint = tmp_path / "run"
    run = start_job("SAVE STREAM job TO noop", code=code, checkpoint=str(checkpoint))
    tracker = spark.sparkContext.statusTracker()
    wait_until(tracker.getActiveJobsIds, what="the job of the write has started")
    run.stop()

    assert run.find_new_epoch() is None
    assert not (checkpoint / "_finished").exists()
    wait_until(lambda: not tracker.getActiveJobsIds(), what="the job of the write has ended")
