"""Recovery: a driver completes or removes the orphaned transactions of other drivers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import (
    ROWS,
    Crash,
    CtasRun,
    checksum,
    crash_before,
    database_directory,
    expected_checksum,
    fetch_rows,
    list_directories,
    list_tables,
    orphan_transaction,
)
from tests.support.journal import JournalLink

from headrace.driver.ctas import recover
from headrace.driver.ctas.staged_table import StagedTable
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

TEXT = f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {ROWS}"
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
COMMITTING, COMMITTED = TransactionState.COMMITTING, TransactionState.COMMITTED


def crash(*_arguments: object) -> None:
    raise Crash


def crash_in_commit(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leave an orphaned transaction that is complete but not published."""
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(StagedTable, "commit", crash)
        CtasRun(spark, TEXT, link)
    orphan_transaction(link)


def test_a_transaction_that_was_not_committing_is_rolled_back(
    spark: SparkSession, link: JournalLink
) -> None:
    crash_before(link, COMMITTING)
    with pytest.raises(Crash):
        CtasRun(spark, TEXT, link)
    assert len(list_tables(spark)) == len(list_directories(spark)) == 1
    orphan_transaction(link)
    recover(spark, link.as_link())
    assert list_tables(spark) == list_directories(spark) == []
    assert link.steps[-2:] == [ABORTING, ABORTED]


@pytest.mark.parametrize("step", ["write", "commit"])
@pytest.mark.parametrize("shape", ["managed", "located", "replaced"])
def test_a_transaction_whose_database_was_dropped_is_rolled_back(
    spark: SparkSession,
    link: JournalLink,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    shape: str,
    step: str,
) -> None:
    location = tmp_path / "location"
    clause = f"LOCATION '{location}'" if shape == "located" else ""
    text = f"CREATE TABLE dropped.t USING parquet {clause} AS {ROWS}"
    spark.sql("CREATE DATABASE dropped")
    if shape == "replaced":
        CtasRun(spark, text, JournalLink())
        text = text.replace("CREATE", "CREATE OR REPLACE", 1)
    if step == "write":
        crash_before(link, COMMITTING)
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(StagedTable, "commit", crash)
        CtasRun(spark, text, link)
    spark.sql("DROP DATABASE dropped CASCADE")
    orphan_transaction(link)
    recover(spark, link.as_link())
    assert link.steps[-2:] == [ABORTING, ABORTED]
    assert not location.exists()


def test_a_committing_transaction_is_rolled_forward(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_in_commit(spark, link, monkeypatch)
    recover(spark, link.as_link())
    assert list_tables(spark) == list_directories(spark) == ["t"]
    assert checksum(spark, "t") == expected_checksum(spark)
    assert link.steps[-1] is COMMITTED


def test_another_users_table_is_kept_and_the_staged_one_is_removed(
    spark: SparkSession,
    link: JournalLink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    crash_in_commit(spark, link, monkeypatch)
    spark.sql("CREATE TABLE t USING json AS SELECT 7 AS x")
    with caplog.at_level(logging.ERROR, "headrace.driver"):
        recover(spark, link.as_link())
    assert fetch_rows(spark, "SELECT * FROM t") == [(7,)]
    assert list_tables(spark) == list_directories(spark) == ["t"]
    assert link.steps[-2:] == [ABORTING, ABORTED]
    assert "already exists" in caplog.text


def test_a_transaction_of_an_unknown_kind_stays_orphaned(
    spark: SparkSession,
    link: JournalLink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    crash_in_commit(spark, link, monkeypatch)
    [orphan] = link.orphaned
    link.orphaned = [
        orphan.model_copy(update={"staged": orphan.staged.model_copy(update={"kind": "odd"})})
    ]
    recover(spark, link.as_link())
    assert link.steps[-1] is COMMITTING
    assert "no implementation of kind 'odd'" in caplog.text


def test_transactions_of_other_catalogs_are_not_claimed(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_in_commit(spark, link, monkeypatch)
    [orphan] = link.orphaned
    link.orphaned = [
        orphan.model_copy(update={"staged": orphan.staged.model_copy(update={"identity": "other"})})
    ]
    recover(spark, link.as_link())
    assert len(link.orphaned) == 1
    assert link.steps[-1] is COMMITTING


@pytest.mark.finding("S2")
@pytest.mark.parametrize(
    "record",
    [{"stream_location": 5, "table": {}}, {"stream_location": "x"}, {"staged": 7}, {}],
    ids=str,
)
def test_a_forged_record_does_not_stop_the_recovery_of_other_tables(
    spark: SparkSession,
    link: JournalLink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record: dict[str, object],
) -> None:
    crash_in_commit(spark, link, monkeypatch)
    [orphan] = link.orphaned
    staged = orphan.staged.model_copy(update={"record": record})
    forged = orphan.model_copy(update={"id": f"tx_{'0' * 32}", "staged": staged})
    link.orphaned = [forged, orphan]
    recover(spark, link.as_link())
    assert list_tables(spark) == ["t"]
    assert checksum(spark, "t") == expected_checksum(spark)
    assert f"transaction {forged.id} of table" in caplog.text


@pytest.mark.finding("S2")
@pytest.mark.parametrize("field", ["staged", "staging_location", "target", "backup", "files"])
def test_a_forged_record_makes_no_driver_drop_a_table_or_delete_a_directory(
    spark: SparkSession, link: JournalLink, caplog: pytest.LogCaptureFixture, field: str
) -> None:
    """Names and places follow from the transaction, whatever the record of another driver says."""
    spark.sql("CREATE TABLE victim USING parquet AS SELECT 1 AS a")
    crash_before(link, COMMITTING)
    with pytest.raises(Crash):
        CtasRun(spark, TEXT, link)
    orphan = orphan_transaction(link)
    directory = (database_directory(spark) / "victim").as_uri()
    record = orphan.staged.record
    victim = {**record["target"], "table": "victim"}
    forged = {
        "staged": {"staged": victim},
        "staging_location": {"staging_location": directory, "final_location": directory},
        "target": {"target": victim},
        "backup": {"backup": victim},
        "files": {"files": ["../victim/x"], "external": True, "final_location": directory},
    }[field]
    staged = orphan.staged.model_copy(update={"record": {**record, **forged}})
    link.orphaned = [orphan.model_copy(update={"staged": staged})]
    with caplog.at_level(logging.ERROR, "headrace.driver"):
        recover(spark, link.as_link())
    assert fetch_rows(spark, "SELECT a FROM victim") == [(1,)]
    refused = field in {"target", "files"}
    assert ("is not trusted" in caplog.text) is refused
    assert (list_tables(spark) == ["victim"]) is not refused
