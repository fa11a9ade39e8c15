"""A table from a bounded stream holds each row exactly once, or does not appear."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import IllegalArgumentException
from tests.driver.ctas.lake_namespace import LakeNamespace
from tests.support.ctas import Crash, CtasRun, crash_before, fetch_rows, journal_entry, list_tables
from tests.support.journal import JournalLink
from tests.support.lakes import LAKES
from tests.support.waiting import wait_until

from headrace.errors import CatalogError, EndlessStream, InvalidSetting, StreamStopped
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
COMMITTING = TransactionState.COMMITTING
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
TEXT = "CREATE TABLE t USING parquet PARTITIONED BY (k) AS SELECT id, id % 3 AS k FROM arriving"
SUM = "SELECT count(*), sum(id), sum(k), count(DISTINCT id) FROM {}"
WHOLE = [(300, 44850, 300, 300)]


def create_stream_view(spark: SparkSession, folder: Path) -> None:
    """Create the view `arriving` over a stream of three files, one per batch, in order."""
    spark.range(0, 300, 1, 3).write.mode("overwrite").parquet(str(folder / "in"))
    for number, file in enumerate(sorted((folder / "in").glob("part-*"))):
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", "1")
    stream.parquet(str(folder / "in")).createOrReplaceTempView("arriving")


@pytest.fixture
def stream(spark: SparkSession, link: JournalLink, tmp_path: Path) -> Iterator[JournalLink]:
    """Return a link with results in `tmp_path` to a session with the view `arriving`."""
    create_stream_view(spark, tmp_path)
    spark.conf.set("headrace.ctas.trigger", "Available  now")
    link.bootstrap = link.bootstrap.model_copy(update={"results": str(tmp_path / "results")})
    yield link
    spark.conf.unset("headrace.ctas.trigger")
    spark.catalog.dropTempView("arriving")


def list_stream_files(link: JournalLink) -> list[str]:
    """Return the paths of the files that hold rows of streams."""
    return [str(path) for path in Path(link.bootstrap.results).rglob("*") if path.is_file()]


@pytest.mark.usefixtures("database")
def test_a_table_holds_all_rows_that_were_available(
    spark: SparkSession, stream: JournalLink
) -> None:
    run = CtasRun(spark, TEXT, stream)
    assert (run.plan.atomic, stream.steps) == (True, [PREPARED, BEGUN, COMMITTING])
    assert fetch_rows(spark, SUM.format("t")) == WHOLE
    assert fetch_rows(spark, "SELECT count(*) FROM t WHERE k = 1") == [(100,)]
    assert (list_tables(spark), list_stream_files(stream)) == (["arriving", "t"], [])


@pytest.mark.usefixtures("database")
def test_the_trigger_once_reads_all_rows_in_one_batch(
    spark: SparkSession, stream: JournalLink
) -> None:
    spark.conf.set("headrace.ctas.trigger", "once")
    CtasRun(spark, TEXT.replace("PARTITIONED BY (k) ", ""), stream)
    assert fetch_rows(spark, SUM.format("t")) == WHOLE


@pytest.mark.usefixtures("database")
def test_a_stream_that_never_ends_is_refused(spark: SparkSession, stream: JournalLink) -> None:
    spark.conf.unset("headrace.ctas.trigger")
    with pytest.raises(EndlessStream, match=r"headrace\.ctas\.trigger"):
        CtasRun(spark, TEXT, stream)
    # A Spark to which a driver has added the options checks the value itself.
    with pytest.raises((InvalidSetting, IllegalArgumentException), match="available now, once"):
        spark.conf.set("headrace.ctas.trigger", "5 seconds")
        CtasRun(spark, TEXT, stream)
    spark.conf.set("headrace.ctas.trigger", "once")
    spark.conf.set("headrace.ctas.atomicity", "off")
    try:
        with pytest.raises(CatalogError, match="from a stream"):
            CtasRun(spark, TEXT, stream)
    finally:
        spark.conf.unset("headrace.ctas.atomicity")
    assert (stream.steps, list_tables(spark)) == ([], ["arriving"])


@pytest.mark.usefixtures("database")
def test_a_failed_stream_leaves_no_table_and_no_file(
    spark: SparkSession, stream: JournalLink
) -> None:
    failing = TEXT.replace("id % 3", "IF(id < 290, id, raise_error('half-way'))")
    with pytest.raises(Exception, match="half-way"):
        CtasRun(spark, failing, stream)
    assert stream.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert (list_tables(spark), list_stream_files(stream)) == (["arriving"], [])


@pytest.mark.finding("B13")
@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("trigger", ["available now", "once"])
def test_a_stream_that_is_stopped_in_a_batch_leaves_no_table_and_no_file(
    spark: SparkSession, stream: JournalLink, trigger: str
) -> None:
    """Spark reports a stopped query as it reports a complete one."""
    spark.conf.set("headrace.ctas.trigger", trigger)
    slow = f"{TEXT} WHERE reflect('java.lang.Thread', 'sleep', 60000L) IS NOT NULL"

    def stop() -> None:
        wait_until(lambda: spark.streams.active, what="the streaming query runs")
        tracker = spark.sparkContext.statusTracker()
        wait_until(tracker.getActiveJobsIds, what="a batch runs")
        spark.streams.active[0].stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(StreamStopped, match="before it had read all rows"):
        CtasRun(spark, slow, stream)
    stopper.join()
    assert stream.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert (list_tables(spark), list_stream_files(stream)) == (["arriving"], [])


@pytest.mark.finding("B13")
@pytest.mark.usefixtures("database")
def test_a_stream_that_is_stopped_after_its_first_batch_leaves_no_table(
    spark: SparkSession, stream: JournalLink
) -> None:
    """The first batch is complete, and two batches are missing."""

    def stop() -> None:
        wait_until(lambda: spark.streams.active, what="the streaming query runs")
        query = spark.streams.active[0]
        wait_until(lambda: query.recentProgress, what="the first batch has ended")
        query.stop()

    # The second batch does not end.
    sleep = "reflect('java.lang.Thread', 'sleep', IF(id < 100, 0L, 60000L))"
    slow = f"{TEXT} WHERE {sleep} IS NOT NULL"
    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(StreamStopped):
        CtasRun(spark, slow, stream)
    stopper.join()
    assert list_tables(spark) == ["arriving"]


@pytest.mark.catalogs
@pytest.mark.parametrize(
    "lake",
    # The rows of a stream are files before any catalog is asked: two kinds of commit suffice.
    [
        pytest.param(
            lake, marks=[] if lake.name in {"parquet", "iceberg-base"} else [pytest.mark.matrix]
        )
        for lake in LAKES
    ],
    ids=str,
    indirect=True,
)
def test_after_a_crash_no_row_is_lost_or_duplicated(
    namespace: LakeNamespace, stream: JournalLink, tmp_path: Path
) -> None:
    create_stream_view(namespace.spark, tmp_path)
    namespace.spark.conf.set("headrace.ctas.trigger", "available now")
    text = namespace.ctas("SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM arriving")

    crash_before(stream, COMMITTING)
    with pytest.raises(Crash):
        CtasRun(namespace.spark, text, stream)
    assert list_stream_files(stream)
    next_link = JournalLink()
    next_link.bootstrap, next_link.steps = stream.bootstrap, stream.steps
    CtasRun(namespace.spark, text, next_link, earlier=journal_entry(stream))
    assert fetch_rows(namespace.spark, SUM.format(namespace.table)) == WHOLE
    assert list_stream_files(stream) == []
