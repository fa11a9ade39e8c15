"""TRIGGER CONTINUOUS: which sources and sinks take it, and what is known about such a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.streams import StartRun
from tests.support.waiting import wait_until

from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.driver.streams.spark_run import SparkRun


# A continuous query holds one slot for each partition, and Spark has two.
TICKS = "CREATE STREAM ticks FROM rate OPTIONS ('rowsPerSecond' = '100', 'numPartitions' = '1')"
CONTINUOUS = "TRIGGER CONTINUOUS 100 MILLISECONDS"


def wait_for_epoch(run: SparkRun) -> int:
    """Wait until the run has committed an epoch. Return its number."""

    def find_epoch() -> int | None:
        assert not run.wait()
        return run.find_new_epoch()

    return wait_until(find_epoch, what="an epoch after 0") or 0


@pytest.mark.parametrize("sink", ["console", "noop"])
def test_a_continuous_query_continues_from_its_checkpoint(start: StartRun, sink: str) -> None:
    save = f"SAVE STREAM ticks TO {sink} {CONTINUOUS}"
    run = start(save, TICKS)
    last = wait_for_epoch(run)
    run.stop()
    run = start(save, TICKS)

    assert wait_for_epoch(run) > last
    assert run.read_new_batches(None) == []


def test_a_continuous_query_fills_the_memory_sink(start: StartRun, spark: SparkSession) -> None:
    even = "CREATE STREAM even AS SELECT value AS n FROM ticks WHERE value % 2 = 0"
    run = start(f"SAVE STREAM even TO memory IDENTIFIED BY seen {CONTINUOUS}", TICKS, even)
    wait_for_epoch(run)
    wait_until(lambda: spark.table("seen").count() > 0, what="rows arrive")
    run.stop()

    assert spark.table("seen").where("n % 2 = 1").count() == 0
    spark.catalog.dropTempView("seen")


def test_a_batch_query_has_no_epoch(start: StartRun, numbers: str) -> None:
    run = start("SAVE STREAM numbers TO noop", numbers)
    wait_until(lambda: run.wait() or run.read_new_batches(None), what="the first batch")

    assert run.find_new_epoch() is None


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT n FROM numbers", r"cannot read FileSource.* only has batches.*: kafka, rate"),
        ("SELECT value FROM blocks", "rate-micro-batch does not support continuous processing"),
        ("SELECT count(*) FROM ticks", "[Aa]ggregat"),
        ("SELECT value FROM ticks LIMIT 3", "Continuous processing does not support LocalLimit"),
    ],
)
def test_a_query_that_cannot_be_continuous_is_refused_before_it_starts(
    start: StartRun, numbers: str, tmp_path: Path, query: str, message: str
) -> None:
    blocks = "CREATE STREAM blocks FROM `rate-micro-batch` OPTIONS ('rowsPerBatch' = '4')"
    stream = f"CREATE STREAM s AS {query}"
    with pytest.raises(RunFailed, match=message) as caught:
        start(f"SAVE STREAM s TO noop {CONTINUOUS}", numbers, blocks, TICKS, stream)

    assert caught.value.is_permanent
