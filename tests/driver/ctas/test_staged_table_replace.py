"""`CREATE OR REPLACE TABLE … LOCATION` in Spark's session catalog swaps the tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import (
    ROWS,
    Crash,
    CtasRun,
    checksum,
    expected_checksum,
    fetch_rows,
    journal_entry,
    list_directories,
    list_tables,
)
from tests.support.journal import JournalLink

from headrace.driver.ctas import Cancelled
from headrace.driver.spark_version.catalogs import V1Catalog
from headrace.errors import CatalogError
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

STEPS = ["begun", "written", "replaced_renamed", "published"]


@pytest.fixture
def text(spark: SparkSession, tmp_path: Path) -> str:
    """Return a statement that replaces an existing table of one row."""
    spark.sql("CREATE TABLE t USING json AS SELECT 7 AS x")
    clauses = f"USING parquet PARTITIONED BY (k) LOCATION '{tmp_path / 'location'}'"
    return f"CREATE OR REPLACE TABLE t {clauses} AS {ROWS}"


@pytest.mark.finding("B16")
def test_a_table_is_replaced_by_one_at_another_location(
    spark: SparkSession, link: JournalLink, tmp_path: Path, text: str
) -> None:
    plan = CtasRun(spark, text, link).plan
    assert plan.atomic is False
    assert "A failure keeps or restores the old table." in str(plan.describe_outcome().note)
    assert_replaced(spark, tmp_path)


@pytest.mark.parametrize("step", STEPS)
def test_the_next_attempt_completes_a_replacement_after_a_crash_at_any_step(
    spark: SparkSession,
    link: JournalLink,
    tmp_path: Path,
    text: str,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Crash):
        crash_at(step, link, patch)
        CtasRun(spark, text, link)
    link.before_step = lambda _state: None
    if step in {"begun", "written"}:
        assert fetch_rows(spark, "SELECT x FROM t") == [(7,)]
    CtasRun(spark, text, link, earlier=journal_entry(link))
    assert_replaced(spark, tmp_path)


def test_a_cancelled_replacement_keeps_the_old_table(
    spark: SparkSession, link: JournalLink, tmp_path: Path, text: str
) -> None:
    link.refused_states = {TransactionState.COMMITTING}
    with pytest.raises(Cancelled):
        CtasRun(spark, text, link)
    assert (fetch_rows(spark, "SELECT x FROM t"), list_tables(spark)) == ([(7,)], ["t"])
    assert not (tmp_path / "location").exists()


@pytest.mark.parametrize("directory", ["plain", "100 %"])
def test_a_failed_replacement_restores_the_partitions_of_the_old_table(
    spark: SparkSession,
    link: JournalLink,
    tmp_path: Path,
    directory: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_arguments: object) -> None:
        raise CatalogError("The catalog refuses the name.")

    spark.sql(f"CREATE DATABASE replaced LOCATION '{tmp_path}/{directory}'")
    try:
        CtasRun(spark, f"CREATE TABLE replaced.t USING parquet PARTITIONED BY (k) AS {ROWS}", link)
        monkeypatch.setattr(V1Catalog, "publish", refuse)
        with pytest.raises(CatalogError, match="refuses the name"):
            CtasRun(
                spark, "CREATE OR REPLACE TABLE replaced.t USING json AS SELECT 1", JournalLink()
            )
        assert checksum(spark, "replaced.t") == expected_checksum(spark)
    finally:
        spark.sql("DROP DATABASE replaced CASCADE")


def crash_at(step: str, link: JournalLink, patch: pytest.MonkeyPatch) -> None:
    publish = V1Catalog.publish

    def crash(*arguments: object) -> None:
        if step == "published":
            publish(*arguments)  # type: ignore[arg-type]
        raise Crash

    def crash_before_step(state: TransactionState) -> None:
        if state is TransactionState.COMMITTING or (
            step == "begun" and state is TransactionState.BEGUN
        ):
            raise Crash

    if step in {"replaced_renamed", "published"}:
        patch.setattr(V1Catalog, "publish", crash)
    else:
        link.before_step = crash_before_step


def assert_replaced(spark: SparkSession, tmp_path: Path) -> None:
    assert checksum(spark, "t") == expected_checksum(spark)
    assert (list_tables(spark), list_directories(spark)) == (["t"], [])
    assert not [path for path in tmp_path.rglob("*") if "headrace" in path.name]
    described = {row[0]: row[1] for row in fetch_rows(spark, "DESCRIBE EXTENDED t")}
    assert described["Location"] == f"file:{tmp_path / 'location'}"
