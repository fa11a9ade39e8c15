"""What a CTAS on Spark's own catalog refuses, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import ROWS, Ran, database_place, rows, tables
from tests.support.journal import JournalLink

from headrace.errors import (
    AtomicityRequired,
    DatabaseNotFound,
    InvalidSetting,
    LocationNotEmpty,
    TableAlreadyExists,
)
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

WRITTEN = [TransactionState.PREPARED, TransactionState.BEGUN, TransactionState.COMMITTING]
PARTITIONED = f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {ROWS}"


def test_an_existing_table_is_an_error_and_untouched(
    spark: SparkSession, link: JournalLink
) -> None:
    spark.sql("CREATE TABLE t USING json AS SELECT 7 AS x")
    with pytest.raises(TableAlreadyExists, match="it is a table"):
        Ran(spark, PARTITIONED, link)
    ran = Ran(spark, PARTITIONED.replace("TABLE t", "TABLE IF NOT EXISTS t"), link)
    assert ran.course.note is not None
    assert "Nothing was done" in ran.course.note
    assert (ran.course.atomic, link.steps) == (None, [])
    assert rows(spark, "SELECT * FROM t") == [(7,)]


def test_a_view_at_its_name_is_named(spark: SparkSession, link: JournalLink) -> None:
    spark.sql("CREATE VIEW t AS SELECT 1 AS a")
    with pytest.raises(TableAlreadyExists, match="it is a view"):
        Ran(spark, PARTITIONED, link)


def test_a_missing_database_is_found_before_any_job(spark: SparkSession, link: JournalLink) -> None:
    with pytest.raises(DatabaseNotFound, match="'nowhere'"):
        Ran(spark, f"CREATE TABLE nowhere.t USING parquet AS {ROWS}", link)
    assert link.steps == []


@pytest.mark.parametrize("words", ["", "IF NOT EXISTS"])
def test_a_location_with_files_is_refused_and_untouched(
    spark: SparkSession, link: JournalLink, tmp_path: Path, words: str
) -> None:
    (tmp_path / "theirs").write_text("x")
    text = f"CREATE TABLE {words} t USING parquet LOCATION '{tmp_path}' AS {ROWS}"
    with pytest.raises(LocationNotEmpty, match=str(tmp_path)):
        Ran(spark, text, link)
    assert [one.name for one in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("own", [False, True])
def test_a_location_with_files_is_refused_for_what_replaces_a_table_too(
    spark: SparkSession, link: JournalLink, tmp_path: Path, own: bool
) -> None:
    """Another's files, and those of the very table that is to be replaced."""
    theirs = tmp_path / "theirs"
    location = f"LOCATION '{theirs}'"
    spark.sql(f"CREATE TABLE t USING parquet {location if own else ''} AS SELECT 7 AS x")
    if not own:
        theirs.mkdir()
        (theirs / "precious").write_text("mine")
    files = sorted(theirs.iterdir())
    with pytest.raises(LocationNotEmpty, match="theirs"):
        Ran(spark, f"CREATE OR REPLACE TABLE t USING parquet {location} AS {ROWS}", link)
    assert (rows(spark, "SELECT x FROM t"), sorted(theirs.iterdir())) == ([(7,)], files)
    assert link.steps == []


def test_what_plain_spark_has_left_is_refused_with_its_path(
    spark: SparkSession, link: JournalLink
) -> None:
    left = database_place(spark) / "t" / "_temporary" / "0"
    left.mkdir(parents=True)
    with pytest.raises(LocationNotEmpty, match=r"/t$"):
        Ran(spark, PARTITIONED, link)
    assert left.exists()
    left.rmdir()
    left.parent.rmdir()
    # What is empty is in nobody's way.
    Ran(spark, PARTITIONED, link)


def test_another_that_publishes_the_name_is_waited_for(
    spark: SparkSession, link: JournalLink
) -> None:
    link.busy = 2
    Ran(spark, PARTITIONED, link)
    assert (link.busy, link.steps) == (0, WRITTEN)


def test_what_is_wrong_in_the_query_is_found_before_anything_is_journalled(
    spark: SparkSession, link: JournalLink
) -> None:
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        Ran(spark, "CREATE TABLE t USING parquet AS SELECT nothing", link)
    assert link.steps == []


@pytest.mark.parametrize(
    ("mode", "lenient", "atomic"), [("off", "false", False), ("auto", "true", False)]
)
def test_where_it_is_not_atomic_it_says_so(
    spark: SparkSession, link: JournalLink, mode: str, lenient: str, atomic: bool
) -> None:
    with_conf(spark, mode, lenient)
    try:
        assert Ran(spark, PARTITIONED, link).course.atomic is atomic
        assert (link.steps, tables(spark)) == ([], ["t"])
    finally:
        with_conf(spark, None, None)


def test_where_it_must_be_atomic_it_is_refused(spark: SparkSession, link: JournalLink) -> None:
    with_conf(spark, "require", "true")
    try:
        with pytest.raises(AtomicityRequired, match=r"headrace\.ctas\.atomicity"):
            Ran(spark, PARTITIONED, link)
        with_conf(spark, "maybe", None)
        with pytest.raises(InvalidSetting, match="auto, require, off"):
            Ran(spark, PARTITIONED, link)
        assert tables(spark) == []
    finally:
        with_conf(spark, None, None)


def with_conf(spark: SparkSession, mode: str | None, lenient: str | None) -> None:
    names = ("headrace.ctas.atomicity", "spark.sql.legacy.allowNonEmptyLocationInCTAS")
    for name, value in zip(names, (mode, lenient), strict=True):
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
