"""Staged tables with a LOCATION that other tables use at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_lakes
from tests.support.ctas import (
    ROWS,
    Crash,
    CtasRun,
    checksum,
    crash_before,
    expected_checksum,
    fetch_rows,
    journal_entry,
    list_tables,
)
from tests.support.journal import JournalLink

from headrace.errors import LocationNotEmpty, TableAlreadyExists
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

COMMITTING = TransactionState.COMMITTING


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "location"


@pytest.fixture
def text(location: Path) -> str:
    return f"CREATE TABLE t USING parquet PARTITIONED BY (k) LOCATION '{location}' AS {ROWS}"


def test_readers_of_the_location_do_not_see_staged_files(
    spark: SparkSession, link: JournalLink, location: Path, text: str
) -> None:
    seen = []

    def read_before_commit(state: TransactionState) -> None:
        if state is COMMITTING:
            assert list(location.rglob("*.parquet"))
            frame = spark.read.schema("id LONG").parquet(str(location))
            seen.append(frame.inputFiles())

    link.before_step = read_before_commit
    CtasRun(spark, text, link)
    assert seen == [[]]


@pytest.mark.parametrize(
    ("name", "refused"), [("t", TableAlreadyExists), ("other", LocationNotEmpty)]
)
def test_the_first_of_two_commits_gets_the_location(
    spark: SparkSession,
    link: JournalLink,
    location: Path,
    text: str,
    name: str,
    refused: type[Exception],
) -> None:
    """Both statements begin while the location is empty."""

    def commit_other_table(state: TransactionState) -> None:
        if state is COMMITTING:
            CtasRun(spark, text.replace(" t ", f" {name} "), JournalLink())

    link.before_step = commit_other_table
    with pytest.raises(refused):
        CtasRun(spark, text, link)
    assert checksum(spark, name) == expected_checksum(spark)
    assert list_tables(spark) == [name]
    assert not [path for path in location.rglob("*") if "headrace" in path.name]


def test_staged_files_of_a_crashed_ctas_do_not_block_another_one(
    spark: SparkSession, link: JournalLink, location: Path, text: str
) -> None:
    crash_before(link, COMMITTING)
    with pytest.raises(Crash):
        CtasRun(spark, text, link)
    CtasRun(spark, text.replace(" t ", " other "), JournalLink())
    assert checksum(spark, "other") == expected_checksum(spark)
    # The next attempt finds the location in use, and removes only its own files.
    link.before_step = lambda _state: None
    with pytest.raises(LocationNotEmpty, match="not changed"):
        CtasRun(spark, text, link, earlier=journal_entry(link))
    assert list_tables(spark) == ["other"]
    assert fetch_rows(spark, f"SELECT count(*) FROM parquet.`{location}`") == [(100,)]
    assert not [path for path in location.rglob("*") if "headrace" in path.name]


@pytest.mark.catalogs
@for_lakes("delta", "iceberg-base")
def test_a_location_of_another_catalogs_table_must_be_empty(
    namespace: LakeNamespace, link: JournalLink, location: Path
) -> None:
    text = namespace.ctas(ROWS).replace(" AS SELECT", f" LOCATION '{location}' AS SELECT", 1)
    CtasRun(namespace.spark, text, link)
    assert checksum(namespace.spark, namespace.table) == expected_checksum(namespace.spark)
    second_text = text.replace(f"{namespace.table} ", f"{namespace.table}2 ", 1)
    with pytest.raises(LocationNotEmpty, match=str(location)):
        CtasRun(namespace.spark, second_text, JournalLink())
    assert checksum(namespace.spark, namespace.table) == expected_checksum(namespace.spark)
    assert namespace.tables == ["t"]
