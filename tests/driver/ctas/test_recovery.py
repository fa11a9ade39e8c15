"""What other drivers have left of tables: finished or removed by the next one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import (
    ROWS,
    Crash,
    Ran,
    abandoned,
    checksum,
    crash_at,
    expected,
    folders,
    rows,
    tables,
)
from tests.support.journal import JournalLink

from headrace.driver.ctas import recover
from headrace.driver.ctas.journal import Journal
from headrace.driver.ctas.staged_table import StagedTable
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

TEXT = f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {ROWS}"
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
COMMITTING, COMMITTED = TransactionState.COMMITTING, TransactionState.COMMITTED


def die(*_arguments: object) -> None:
    raise Crash


def leave(spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is written, and the driver dies just when it begins to publish."""
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(StagedTable, "commit", die)
        Ran(spark, TEXT, link)
    abandoned(link)


def test_what_had_begun_is_removed(spark: SparkSession, link: JournalLink) -> None:
    crash_at(link, COMMITTING)
    with pytest.raises(Crash):
        Ran(spark, TEXT, link)
    assert len(tables(spark)) == len(folders(spark)) == 1
    abandoned(link)
    recover(spark, link.as_link())
    assert tables(spark) == folders(spark) == []
    assert link.steps[-2:] == [ABORTING, ABORTED]


def test_what_was_being_published_is(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(spark, link, monkeypatch)
    recover(spark, link.as_link())
    assert tables(spark) == folders(spark) == ["t"]
    assert checksum(spark, "t") == expected(spark)
    assert link.steps[-1] is COMMITTED


def test_anothers_table_stays_and_the_staged_one_goes(
    spark: SparkSession,
    link: JournalLink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    leave(spark, link, monkeypatch)
    spark.sql("CREATE TABLE t USING json AS SELECT 7 AS x")
    with caplog.at_level(logging.ERROR, "headrace.driver"):
        recover(spark, link.as_link())
    assert rows(spark, "SELECT * FROM t") == [(7,)]
    assert tables(spark) == folders(spark) == ["t"]
    assert link.steps[-2:] == [ABORTING, ABORTED]
    assert "exists already" in caplog.text


def test_what_nobody_here_knows_is_left(
    spark: SparkSession,
    link: JournalLink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    leave(spark, link, monkeypatch)
    [left] = link.left
    link.left = [left.model_copy(update={"staged": left.staged.model_copy(update={"kind": "odd"})})]
    recover(spark, link.as_link())
    assert link.steps[-1] is COMMITTING
    assert "nothing here knows how to finish a 'odd' one" in caplog.text


def test_other_catalogs_are_others_business(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(spark, link, monkeypatch)
    [left] = link.left
    link.left = [
        left.model_copy(update={"staged": left.staged.model_copy(update={"identity": "there"})})
    ]
    recover(spark, link.as_link())
    assert len(link.left) == 1
    assert link.steps[-1] is COMMITTING


def test_who_waits_for_a_name_finishes_what_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.driver.ctas.journal._LONGEST_PAUSE", 0.05)
    link = JournalLink()
    link.steps, link.busy = [TransactionState.BEGUN], 100

    def finish() -> None:
        link.busy = 0

    journal = Journal(link.as_link(), "tx_1", "st_1", when_busy=finish)
    journal.write(COMMITTING)
    assert link.steps[-1] is COMMITTING
