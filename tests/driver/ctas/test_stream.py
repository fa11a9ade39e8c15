"""A table from a stream that ends: all its rows, once, or none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake import Shore
from tests.support.ctas import Crash, Ran, left_by, rows, tables
from tests.support.journal import JournalLink
from tests.support.lakes import LAKES
from tests.support.waiting import wait_until

from headrace.driver.ctas import Cancelled
from headrace.errors import CatalogError, EndlessStream, InvalidSetting
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
COMMITTING = TransactionState.COMMITTING
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
TEXT = "CREATE TABLE t USING parquet PARTITIONED BY (k) AS SELECT id, id % 3 AS k FROM arriving"
SUM = "SELECT count(*), sum(id), sum(k), count(DISTINCT id) FROM {}"
WHOLE = [(300, 44850, 300, 300)]


def arriving(spark: SparkSession, folder: Path) -> None:
    """A stream of three files, in as many batches, as a view."""
    spark.range(300).repartition(3).write.mode("overwrite").parquet(str(folder / "in"))
    stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", "1")
    stream.parquet(str(folder / "in")).createOrReplaceTempView("arriving")


@pytest.fixture
def stream(spark: SparkSession, link: JournalLink, tmp_path: Path) -> Iterator[JournalLink]:
    """A link whose driver keeps results in `tmp_path`, and a trigger in the session."""
    arriving(spark, tmp_path)
    spark.conf.set("headrace.ctas.trigger", "Available  now")
    link.bootstrap = link.bootstrap.model_copy(update={"results": str(tmp_path / "results")})
    yield link
    spark.conf.unset("headrace.ctas.trigger")
    spark.catalog.dropTempView("arriving")


def kept(link: JournalLink) -> list[str]:
    """What is left of the stream's own files."""
    return [str(one) for one in Path(link.bootstrap.results).rglob("*") if one.is_file()]


@pytest.mark.usefixtures("database")
def test_all_that_is_there_is_in_the_table(spark: SparkSession, stream: JournalLink) -> None:
    ran = Ran(spark, TEXT, stream)
    assert (ran.course.atomic, stream.steps) == (True, [PREPARED, BEGUN, COMMITTING])
    assert rows(spark, SUM.format("t")) == WHOLE
    assert rows(spark, "SELECT count(*) FROM t WHERE k = 1") == [(100,)]
    assert (tables(spark), kept(stream)) == (["arriving", "t"], [])


@pytest.mark.usefixtures("database")
def test_one_batch_of_it_all(spark: SparkSession, stream: JournalLink) -> None:
    spark.conf.set("headrace.ctas.trigger", "once")
    Ran(spark, TEXT.replace("PARTITIONED BY (k) ", ""), stream)
    assert rows(spark, SUM.format("t")) == WHOLE


@pytest.mark.usefixtures("database")
def test_a_stream_without_an_end_is_refused(spark: SparkSession, stream: JournalLink) -> None:
    spark.conf.unset("headrace.ctas.trigger")
    with pytest.raises(EndlessStream, match=r"headrace\.ctas\.trigger"):
        Ran(spark, TEXT, stream)
    spark.conf.set("headrace.ctas.trigger", "5 seconds")
    with pytest.raises(InvalidSetting, match="available now, once"):
        Ran(spark, TEXT, stream)
    spark.conf.set("headrace.ctas.trigger", "once")
    spark.conf.set("headrace.ctas.atomicity", "off")
    try:
        with pytest.raises(CatalogError, match="from a stream"):
            Ran(spark, TEXT, stream)
    finally:
        spark.conf.unset("headrace.ctas.atomicity")
    assert (stream.steps, tables(spark)) == ([], ["arriving"])


@pytest.mark.usefixtures("database")
def test_a_stream_that_fails_leaves_nothing(spark: SparkSession, stream: JournalLink) -> None:
    failing = TEXT.replace("id % 3", "IF(id < 290, id, raise_error('half-way'))")
    with pytest.raises(Exception, match="half-way"):
        Ran(spark, failing, stream)
    assert stream.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert (tables(spark), kept(stream)) == (["arriving"], [])


@pytest.mark.usefixtures("database")
def test_a_stream_that_is_stopped_leaves_nothing(spark: SparkSession, stream: JournalLink) -> None:
    """As a cancel does it: the query stops, and the journal refuses what would follow."""
    slow = TEXT.replace("FROM", "FROM (SELECT *, reflect('java.lang.Thread', 'sleep', 60000L) FROM")

    def stop() -> None:
        wait_until(lambda: spark.streams.active, what="it runs")
        stream.refuse = {COMMITTING}
        for query in spark.streams.active:
            query.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(Cancelled):
        Ran(spark, slow + ")", stream)
    stopper.join()
    assert (tables(spark), kept(stream)) == (["arriving"], [])


@pytest.mark.catalogs
@pytest.mark.parametrize("lake", LAKES, ids=str, indirect=True)
def test_after_a_crash_no_row_is_lost_or_doubled(
    shore: Shore, stream: JournalLink, tmp_path: Path
) -> None:
    arriving(shore.spark, tmp_path)
    shore.spark.conf.set("headrace.ctas.trigger", "available now")
    text = shore.ctas("SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM arriving")

    def die(step: TransactionState) -> None:
        if step is COMMITTING:
            raise Crash

    stream.before = die
    with pytest.raises(Crash):
        Ran(shore.spark, text, stream)
    assert kept(stream)
    again = JournalLink()
    again.bootstrap, again.steps = stream.bootstrap, stream.steps
    Ran(shore.spark, text, again, left=left_by(stream))
    assert rows(shore.spark, SUM.format(shore.table)) == WHOLE
    assert kept(stream) == []
