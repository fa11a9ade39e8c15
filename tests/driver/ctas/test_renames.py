"""Renames that moved a table's files, and did not come to change its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.ctas import (
    ROWS,
    Crash,
    Ran,
    abandoned,
    checksum,
    database_place,
    expected,
    folders,
    left_by,
    rows,
    tables,
)
from tests.support.journal import JournalLink

from headrace.driver.ctas import recover
from headrace.driver.ctas.base import TablePath
from headrace.driver.ctas.hadoop_fs import HadoopFiles
from headrace.driver.ctas.metastore_rename import MetastoreRenames
from headrace.driver.ctas.v1_catalog import V1Catalog
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.errors import CatalogError, LocationNotEmpty, TableAlreadyExists
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

TEXT = f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {ROWS}"
REPLACE = TEXT.replace("CREATE", "CREATE OR REPLACE")
COMMITTING = TransactionState.COMMITTING
_publish, _rename, _left = V1Catalog.publish, V1Catalog.rename, MetastoreRenames._left

Renaming = Callable[[V1Catalog, TablePath, TablePath], None]


@pytest.fixture(autouse=True)
def nobody_is_still_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.driver.ctas.metastore_rename._STILL_AT_IT", 0.0)


@pytest.fixture
def place(spark: SparkSession, database: str) -> Path:
    """The directory of the test's database."""
    return database_place(spark)


def staged_path(spark: SparkSession) -> TablePath:
    [[database]] = rows(spark, "SELECT current_database()")
    [staged] = [one for one in tables(spark) if one != "t"]
    return TablePath("spark_catalog", (database,), staged)


def finish(spark: SparkSession, place: Path, staged: TablePath | None = None) -> None:
    """The metastore comes to the end of the rename of `t`."""
    path = staged or staged_path(spark)
    (place / "t").rename(place / path.table)
    _publish(V1Catalog(spark, Py4JBridge(spark)), path, path.beside("t"))


def half(then: Callable[[], BaseException]) -> Renaming:
    """A rename that moves the files, and then ends like that."""

    def move(tables: V1Catalog, path: TablePath, target: TablePath) -> None:
        source, new = (tables.default_location(one) for one in (path, target))
        Path(source.removeprefix("file:")).rename(new.removeprefix("file:"))
        raise then()

    return move


def refusal() -> Exception:
    from pyspark.errors import AnalysisException

    return AnalysisException("the metastore is gone", messageParameters={})


def cut_short(spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is written and its files are moved; its name is not changed."""
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "publish", half(Crash))
        Ran(spark, TEXT, link)


def the_first(first: Renaming, rest: Renaming) -> Renaming:
    """One after the other."""
    left = iter([first])

    def rename(tables: V1Catalog, path: TablePath, target: TablePath) -> None:
        next(left, rest)(tables, path, target)

    return rename


def test_the_next_brings_the_files_back(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(spark, link, monkeypatch)
    assert folders(spark) == ["t"]
    assert tables(spark) != ["t"]
    Ran(spark, TEXT, link, left=left_by(link))
    assert checksum(spark, "t") == expected(spark)
    assert tables(spark) == folders(spark) == ["t"]


def test_one_that_is_answered_by_an_error_is_tried_again(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(V1Catalog, "publish", the_first(half(refusal), _publish))
    Ran(spark, TEXT, link)
    assert checksum(spark, "t") == expected(spark)
    assert tables(spark) == folders(spark) == ["t"]


def test_what_cannot_be_brought_back_is_told_and_left(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(CatalogError, match="moved back"):
        patch.setattr(V1Catalog, "publish", the_first(half(refusal), _publish))
        patch.setattr(HadoopFiles, "move", lambda *_arguments: False)
        Ran(spark, TEXT, link)
    assert link.steps[-2:] == [COMMITTING, TransactionState.ABORTING]
    abandoned(link)
    recover(spark, link.as_link())
    assert tables(spark) == folders(spark) == []


def test_files_follow_one_that_was_made_all_the_same(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metastore was still at it when they were brought back."""

    def late(known: V1Catalog, path: TablePath, target: TablePath) -> None:
        source, new = (known.default_location(one) for one in (path, target))
        _publish(known, path, target)
        Path(new.removeprefix("file:")).rename(source.removeprefix("file:"))
        raise refusal()

    monkeypatch.setattr(V1Catalog, "publish", late)
    Ran(spark, TEXT, link)
    assert checksum(spark, "t") == expected(spark)
    assert tables(spark) == folders(spark) == ["t"]


def test_who_is_slow_is_waited_for(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setattr("headrace.driver.ctas.metastore_rename._STILL_AT_IT", 600.0)

    def look(self: MetastoreRenames, *known: Any) -> str | None:
        found = _left(self, *known)
        if found is not None:
            finish(spark, place)
        return found

    monkeypatch.setattr(MetastoreRenames, "_left", look)
    cut_short(spark, link, monkeypatch)
    Ran(spark, TEXT, link, left=left_by(link))
    assert checksum(spark, "t") == expected(spark)
    assert tables(spark) == folders(spark) == ["t"]


def test_another_that_has_the_name_keeps_it(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cut_short(spark, link, monkeypatch)
    spark.sql(f"CREATE TABLE t USING json LOCATION '{tmp_path / 'theirs'}' AS SELECT 7 AS x")
    with pytest.raises(TableAlreadyExists):
        Ran(spark, TEXT, link, left=left_by(link))
    assert rows(spark, "SELECT x FROM t") == [(7,)]
    assert (tables(spark), folders(spark)) == (["t"], [])


def test_files_of_others_are_not_taken_for_its_own(
    spark: SparkSession, link: JournalLink, place: Path
) -> None:
    """Somebody has removed the staged ones by hand, and others are where they would have gone."""

    def meanwhile(state: TransactionState) -> None:
        if state is COMMITTING:
            (place / staged_path(spark).table).rename(place / "elsewhere")
            (place / "t").mkdir()
            (place / "t" / "theirs").write_text("x")

    link.before = meanwhile
    with pytest.raises(LocationNotEmpty, match=r"/t$"):
        Ran(spark, TEXT, link)
    assert (place / "t" / "theirs").read_text() == "x"
    assert (tables(spark), folders(spark)) == ([], ["elsewhere", "t"])


@pytest.fixture
def replaced(spark: SparkSession, database: str) -> None:
    """A table that is there, with one row."""
    spark.sql("CREATE TABLE t USING json AS SELECT 7 AS x")


@pytest.mark.usefixtures("replaced")
def test_a_replaced_table_that_was_half_put_aside(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "rename", half(Crash))
        Ran(spark, REPLACE, link)
    Ran(spark, REPLACE, link, left=left_by(link))
    assert checksum(spark, "t") == expected(spark)
    assert tables(spark) == folders(spark) == ["t"]


@pytest.mark.usefixtures("replaced")
def test_a_replaced_table_that_was_half_put_back(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def declare_lost(known: V1Catalog, path: TablePath, _target: TablePath) -> None:
        known.drop(path)
        raise refusal()

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "publish", declare_lost)
        patch.setattr(V1Catalog, "rename", the_first(_rename, half(Crash)))
        Ran(spark, REPLACE, link)
    assert tables(spark) != ["t"]
    abandoned(link)
    recover(spark, link.as_link())
    assert rows(spark, "SELECT x FROM t") == [(7,)]
    assert tables(spark) == folders(spark) == ["t"]


def test_one_that_is_under_way_is_left_to_the_journal(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    """Its files are there and its name is not: that is no place with files of others."""
    cut_short(spark, JournalLink(), monkeypatch)

    def meanwhile(state: TransactionState) -> None:
        if state is COMMITTING:
            finish(spark, place, staged)

    staged = staged_path(spark)
    link.before = meanwhile
    with pytest.raises(TableAlreadyExists, match="meanwhile"):
        Ran(spark, TEXT, link)
    assert checksum(spark, "t") == expected(spark)
    assert tables(spark) == folders(spark) == ["t"]


@pytest.mark.parametrize("words", ["", "IF NOT EXISTS"])
def test_one_that_was_just_made_is_a_table_that_exists(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Between the look at the name and the look at the place."""
    is_empty, others = HadoopFiles.is_empty, iter([TEXT])

    def look(files: HadoopFiles, place: str, *, but: str | None = None) -> bool:
        for text in others:
            spark.sql(text)
        return is_empty(files, place, but=but)

    monkeypatch.setattr(HadoopFiles, "is_empty", look)
    text = TEXT.replace("TABLE", f"TABLE {words}")
    if words:
        assert "exists already" in str(Ran(spark, text, link).course.note)
    else:
        with pytest.raises(TableAlreadyExists):
            Ran(spark, text, link)
    assert link.steps == []
