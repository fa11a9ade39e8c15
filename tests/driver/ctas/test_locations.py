"""Tables with a LOCATION, where others have files or are about to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import ROWS, Crash, Ran, checksum, crash_at, expected, left_by, rows, tables
from tests.support.journal import JournalLink

from headrace.errors import LocationNotEmpty, TableAlreadyExists
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

COMMITTING = TransactionState.COMMITTING


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


@pytest.fixture
def text(place: Path) -> str:
    return f"CREATE TABLE t USING parquet PARTITIONED BY (k) LOCATION '{place}' AS {ROWS}"


def test_what_is_staged_there_is_seen_by_no_reader(
    spark: SparkSession, link: JournalLink, place: Path, text: str
) -> None:
    seen = []

    def look(state: TransactionState) -> None:
        if state is COMMITTING:
            assert list(place.rglob("*.parquet"))
            frame = spark.read.schema("id LONG").parquet(str(place))
            seen.append(frame.inputFiles())

    link.before = look
    Ran(spark, text, link)
    assert seen == [[]]


@pytest.mark.parametrize(
    ("name", "refused"), [("t", TableAlreadyExists), ("other", LocationNotEmpty)]
)
def test_who_is_published_first_has_the_place(
    spark: SparkSession,
    link: JournalLink,
    place: Path,
    text: str,
    name: str,
    refused: type[Exception],
) -> None:
    """Two that began while it was empty."""

    def meanwhile(state: TransactionState) -> None:
        if state is COMMITTING:
            Ran(spark, text.replace(" t ", f" {name} "), JournalLink())

    link.before = meanwhile
    with pytest.raises(refused):
        Ran(spark, text, link)
    assert checksum(spark, name) == expected(spark)
    assert tables(spark) == [name]
    assert not [one for one in place.rglob("*") if "headrace" in one.name]


def test_what_a_crash_has_left_there_is_in_nobodys_way(
    spark: SparkSession, link: JournalLink, place: Path, text: str
) -> None:
    crash_at(link, COMMITTING)
    with pytest.raises(Crash):
        Ran(spark, text, link)
    Ran(spark, text.replace(" t ", " other "), JournalLink())
    assert checksum(spark, "other") == expected(spark)
    # Whoever takes up what was left finds the place taken, and removes what is its own.
    link.before = lambda _state: None
    with pytest.raises(LocationNotEmpty, match="stay"):
        Ran(spark, text, link, left=left_by(link))
    assert tables(spark) == ["other"]
    assert rows(spark, f"SELECT count(*) FROM parquet.`{place}`") == [(100,)]
    assert not [one for one in place.rglob("*") if "headrace" in one.name]
