"""A CTAS in Spark's session catalog that is refused leaves everything as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import ROWS, CtasRun, database_directory, fetch_rows, list_tables
from tests.support.journal import JournalLink

from headrace.errors import (
    AtomicityRequired,
    DatabaseNotFound,
    LocationNotEmpty,
    TableAlreadyExists,
)
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

WRITTEN = [TransactionState.PREPARED, TransactionState.BEGUN, TransactionState.COMMITTING]
PARTITIONED = f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {ROWS}"


def test_an_existing_table_is_an_error_and_stays_unchanged(
    spark: SparkSession, link: JournalLink
) -> None:
    spark.sql("CREATE TABLE t USING json AS SELECT 7 AS x")
    with pytest.raises(TableAlreadyExists, match="it is a table"):
        CtasRun(spark, PARTITIONED, link)
    run = CtasRun(spark, PARTITIONED.replace("TABLE t", "TABLE IF NOT EXISTS t"), link)
    assert run.plan.note is not None
    assert "Nothing was done" in run.plan.note
    assert (run.plan.atomic, run.plan.changes_nothing, link.steps) == (None, True, [])
    assert fetch_rows(spark, "SELECT * FROM t") == [(7,)]


def test_an_existing_view_is_reported_as_a_view(spark: SparkSession, link: JournalLink) -> None:
    spark.sql("CREATE VIEW t AS SELECT 1 AS a")
    with pytest.raises(TableAlreadyExists, match="it is a view"):
        CtasRun(spark, PARTITIONED, link)


def test_a_missing_database_is_reported_before_any_job(
    spark: SparkSession, link: JournalLink
) -> None:
    with pytest.raises(DatabaseNotFound, match="'nowhere'"):
        CtasRun(spark, f"CREATE TABLE nowhere.t USING parquet AS {ROWS}", link)
    assert link.steps == []


@pytest.mark.parametrize("clause", ["", "IF NOT EXISTS"])
def test_a_location_with_files_is_refused_and_stays_unchanged(
    spark: SparkSession, link: JournalLink, tmp_path: Path, clause: str
) -> None:
    (tmp_path / "theirs").write_text("x")
    text = f"CREATE TABLE {clause} t USING parquet LOCATION '{tmp_path}' AS {ROWS}"
    with pytest.raises(LocationNotEmpty, match=str(tmp_path)):
        CtasRun(spark, text, link)
    assert [file.name for file in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("own", [False, True])
def test_a_replacement_with_files_at_its_location_is_refused(
    spark: SparkSession, link: JournalLink, tmp_path: Path, own: bool
) -> None:
    """The files belong to another user, or to the replaced table itself."""
    theirs = tmp_path / "theirs"
    location = f"LOCATION '{theirs}'"
    spark.sql(f"CREATE TABLE t USING parquet {location if own else ''} AS SELECT 7 AS x")
    if not own:
        theirs.mkdir()
        (theirs / "precious").write_text("mine")
    files = sorted(theirs.iterdir())
    with pytest.raises(LocationNotEmpty, match="theirs"):
        CtasRun(spark, f"CREATE OR REPLACE TABLE t USING parquet {location} AS {ROWS}", link)
    assert (fetch_rows(spark, "SELECT x FROM t"), sorted(theirs.iterdir())) == ([(7,)], files)
    assert link.steps == []


def test_files_that_plain_spark_left_are_refused_with_their_path(
    spark: SparkSession, link: JournalLink
) -> None:
    leftover = database_directory(spark) / "t" / "_temporary" / "0"
    leftover.mkdir(parents=True)
    with pytest.raises(LocationNotEmpty, match=r"/t\. "):
        CtasRun(spark, PARTITIONED, link)
    assert leftover.exists()
    leftover.rmdir()
    leftover.parent.rmdir()
    # An empty directory does not block the statement.
    CtasRun(spark, PARTITIONED, link)


def test_a_ctas_waits_while_another_one_commits_the_same_name(
    spark: SparkSession, link: JournalLink
) -> None:
    link.busy_answers = 2
    CtasRun(spark, PARTITIONED, link)
    assert (link.busy_answers, link.steps) == (0, WRITTEN)


def test_an_error_in_the_query_is_reported_before_anything_is_journalled(
    spark: SparkSession, link: JournalLink
) -> None:
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        CtasRun(spark, "CREATE TABLE t USING parquet AS SELECT nothing", link)
    assert link.steps == []


@pytest.mark.parametrize(
    ("mode", "lenient", "atomic"), [("off", "false", False), ("auto", "true", False)]
)
def test_a_ctas_that_runs_as_plain_spark_reports_that_it_is_not_atomic(
    spark: SparkSession, link: JournalLink, mode: str, lenient: str, atomic: bool
) -> None:
    set_conf(spark, mode, lenient)
    try:
        assert CtasRun(spark, PARTITIONED, link).plan.atomic is atomic
        assert (link.steps, list_tables(spark)) == ([], ["t"])
    finally:
        set_conf(spark, None, None)


def test_a_ctas_that_cannot_be_atomic_is_refused_if_the_session_requires_it(
    spark: SparkSession, link: JournalLink
) -> None:
    set_conf(spark, "require", "true")
    try:
        with pytest.raises(AtomicityRequired, match=r"headrace\.ctas\.atomicity"):
            CtasRun(spark, PARTITIONED, link)
        assert list_tables(spark) == []
    finally:
        set_conf(spark, None, None)


def set_conf(spark: SparkSession, mode: str | None, lenient: str | None) -> None:
    names = ("headrace.ctas.atomicity", "spark.sql.legacy.allowNonEmptyLocationInCTAS")
    for name, value in zip(names, (mode, lenient), strict=True):
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
