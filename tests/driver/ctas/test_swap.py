"""`CREATE OR REPLACE` with a LOCATION, in Spark's own catalog: by a swap, to another place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import ROWS, Crash, Ran, checksum, expected, folders, left_by, rows, tables
from tests.support.journal import JournalLink

from headrace.driver.ctas import Cancelled
from headrace.driver.ctas.v1_catalog import V1Catalog
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

STEPS = ["begun", "sealed", "aside", "published"]


@pytest.fixture
def text(spark: SparkSession, tmp_path: Path) -> str:
    """Replaces a table that is there, with one row."""
    spark.sql("CREATE TABLE t USING json AS SELECT 7 AS x")
    clauses = f"USING parquet PARTITIONED BY (k) LOCATION '{tmp_path / 'place'}'"
    return f"CREATE OR REPLACE TABLE t {clauses} AS {ROWS}"


def test_a_table_is_replaced_by_one_elsewhere(
    spark: SparkSession, link: JournalLink, tmp_path: Path, text: str
) -> None:
    assert Ran(spark, text, link).course.atomic is False
    assert_replaced(spark, tmp_path)


@pytest.mark.parametrize("step", STEPS)
def test_what_dies_is_finished_or_taken_back(
    spark: SparkSession,
    link: JournalLink,
    tmp_path: Path,
    text: str,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Crash):
        die_at(step, link, patch)
        Ran(spark, text, link)
    link.before = lambda _state: None
    if step in {"begun", "sealed"}:
        assert rows(spark, "SELECT x FROM t") == [(7,)]
    Ran(spark, text, link, left=left_by(link))
    assert_replaced(spark, tmp_path)


def test_a_cancel_leaves_the_table_that_was(
    spark: SparkSession, link: JournalLink, tmp_path: Path, text: str
) -> None:
    link.refuse = {TransactionState.COMMITTING}
    with pytest.raises(Cancelled):
        Ran(spark, text, link)
    assert (rows(spark, "SELECT x FROM t"), tables(spark)) == ([(7,)], ["t"])
    assert not (tmp_path / "place").exists()


def die_at(step: str, link: JournalLink, patch: pytest.MonkeyPatch) -> None:
    publish = V1Catalog.publish

    def die(*arguments: object) -> None:
        if step == "published":
            publish(*arguments)  # type: ignore[arg-type]
        raise Crash

    def die_before(state: TransactionState) -> None:
        if state is TransactionState.COMMITTING or (
            step == "begun" and state is TransactionState.BEGUN
        ):
            raise Crash

    if step in {"aside", "published"}:
        patch.setattr(V1Catalog, "publish", die)
    else:
        link.before = die_before


def assert_replaced(spark: SparkSession, tmp_path: Path) -> None:
    assert checksum(spark, "t") == expected(spark)
    assert (tables(spark), folders(spark)) == (["t"], [])
    assert not [one for one in tmp_path.rglob("*") if "headrace" in one.name]
    described = {row[0]: row[1] for row in rows(spark, "DESCRIBE EXTENDED t")}
    assert described["Location"] == f"file:{tmp_path / 'place'}"
