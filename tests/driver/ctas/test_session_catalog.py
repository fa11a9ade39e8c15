"""CTAS on Spark's own catalog, in memory: whole or not at all, whatever the format."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import (
    ROWS,
    Crash,
    Ran,
    checksum,
    crash_at,
    expected,
    folders,
    left_by,
    rows,
    tables,
)
from tests.support.journal import JournalLink

from headrace.driver.ctas import Cancelled, CommitUnfinished
from headrace.driver.ctas.v1_catalog import V1Catalog
from headrace.errors import CatalogError, LocationNotEmpty, TableAlreadyExists
from headrace.model.lifecycle import TransactionState
from headrace.model.statement import Parameter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
COMMITTING = TransactionState.COMMITTING
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
WRITTEN = [PREPARED, BEGUN, COMMITTING]
PARTITIONED = f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {ROWS}"
SHAPES = [("", False), ("PARTITIONED BY (k)", False), ("PARTITIONED BY (k)", True)]
FAILING = "SELECT id, IF(id < 90, id, raise_error('half-way')) AS k FROM range(0, 100, 1, 4)"


@pytest.mark.parametrize(
    "definition",
    [
        "USING parquet",
        "USING orc",
        "USING json",
        "USING csv OPTIONS (header 'true')",
        "USING parquet PARTITIONED BY (k)",
        "USING json PARTITIONED BY (k, s)",
        "USING parquet CLUSTERED BY (id) SORTED BY (id) INTO 3 BUCKETS",
        "USING orc PARTITIONED BY (k) CLUSTERED BY (id) INTO 2 BUCKETS",
        "USING parquet COMMENT 'x' TBLPROPERTIES ('a' = 'b')",
    ],
)
def test_a_table_is_complete(spark: SparkSession, link: JournalLink, definition: str) -> None:
    ran = Ran(spark, f"CREATE TABLE t {definition} AS {ROWS}", link)
    assert (ran.rows, ran.course.atomic, link.steps) == ([], True, WRITTEN)
    assert checksum(spark, "t") == expected(spark)
    assert rows(spark, "SELECT count(*) FROM t WHERE k = 1") == [(33,)]
    assert (tables(spark), folders(spark)) == (["t"], ["t"])


def test_what_is_said_of_a_table_is_kept(spark: SparkSession, link: JournalLink) -> None:
    text = f"CREATE TABLE t USING parquet COMMENT 'x' TBLPROPERTIES ('a' = 'b') AS {ROWS}"
    Ran(spark, text, link)
    properties = dict(rows(spark, "SHOW TBLPROPERTIES t"))
    assert properties["a"] == "b"
    assert properties["headrace.txn"].startswith("tx_")
    described = {row[0]: row[1] for row in rows(spark, "DESCRIBE EXTENDED t")}
    assert described["Comment"] == "x"
    assert described["Type"] == "MANAGED"


@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (k)"])
def test_a_location_of_the_users(
    spark: SparkSession, link: JournalLink, tmp_path: Path, clause: str
) -> None:
    place = tmp_path / "a" / "b"
    Ran(spark, f"CREATE TABLE t USING parquet {clause} LOCATION '{place}' AS {ROWS}", link)
    assert checksum(spark, "t") == expected(spark)
    assert (tables(spark), folders(spark)) == (["t"], [])
    assert not [one for one in place.rglob("*") if "headrace" in one.name]
    # An external one: its files are the user's.
    spark.sql("DROP TABLE t")
    assert rows(spark, f"SELECT count(*) FROM parquet.`{place}`") == [(100,)]


def test_names_by_expression_and_values_by_parameter(
    spark: SparkSession, link: JournalLink
) -> None:
    named = [Parameter(name="a", value=3), Parameter(name="d", value="2020-01-01", type="DATE")]
    Ran(
        spark,
        "CREATE TABLE IDENTIFIER('t' || 'x') USING json AS SELECT :a AS a, :d AS d",
        link,
        parameters=named,
    )
    assert rows(spark, "SELECT * FROM tx") == [(3, date(2020, 1, 1))]
    by_place = [Parameter(value="x"), Parameter(value=2)]
    text = "CREATE TABLE `ty` USING json AS SELECT ? AS a, ? AS b"
    Ran(spark, text, JournalLink(), parameters=by_place)
    assert rows(spark, "SELECT * FROM ty") == [("x", 2)]
    assert tables(spark) == folders(spark) == ["tx", "ty"]


def test_another_database_by_its_name(
    spark: SparkSession, link: JournalLink, database: str
) -> None:
    spark.sql("USE default")
    try:
        Ran(spark, f"CREATE TABLE spark_catalog.{database}.t USING parquet AS {ROWS}", link)
        assert checksum(spark, f"{database}.t") == expected(spark)
    finally:
        spark.sql(f"USE {database}")


@pytest.mark.parametrize(("clause", "external"), SHAPES)
def test_a_failure_leaves_nothing(
    spark: SparkSession, link: JournalLink, tmp_path: Path, clause: str, external: bool
) -> None:
    place = tmp_path / "place"
    location = f"LOCATION '{place}'" if external else ""
    text = f"CREATE TABLE t USING parquet {clause} {location} AS "
    with pytest.raises(Exception, match="half-way"):
        Ran(spark, text + FAILING, link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert tables(spark) == folders(spark) == []
    assert not place.exists()
    Ran(spark, text + ROWS, JournalLink())
    assert checksum(spark, "t") == expected(spark)


@pytest.mark.parametrize("state", WRITTEN)
def test_a_cancel_at_every_edge_leaves_nothing(
    spark: SparkSession, link: JournalLink, state: TransactionState
) -> None:
    link.refuse = {state}
    with pytest.raises(Cancelled):
        Ran(spark, PARTITIONED, link)
    assert tables(spark) == folders(spark) == []
    assert link.steps[-1:] == ([] if state is PREPARED else [ABORTED])


@pytest.mark.parametrize(("clause", "external"), SHAPES)
@pytest.mark.parametrize("state", [BEGUN, COMMITTING])
def test_what_a_crash_leaves_is_rolled_back_by_the_next(
    spark: SparkSession,
    link: JournalLink,
    tmp_path: Path,
    clause: str,
    external: bool,
    state: TransactionState,
) -> None:
    location = f"LOCATION '{tmp_path / 'place'}'" if external else ""
    text = f"CREATE TABLE t USING parquet {clause} {location} AS {ROWS}"
    crash_at(link, state)
    with pytest.raises(Crash):
        Ran(spark, text, link)
    link.before = lambda _state: None
    left = left_by(link)
    again = JournalLink()
    again.steps = link.steps
    Ran(spark, text, again, left=left)
    assert again.steps[-5:] == [ABORTING, ABORTED, *WRITTEN]
    assert checksum(spark, "t") == expected(spark)
    assert tables(spark) == ["t"]
    assert folders(spark) == ([] if external else ["t"])


@pytest.mark.parametrize(("clause", "external"), SHAPES)
@pytest.mark.parametrize("published", [False, True])
def test_what_was_being_published_is_finished_by_the_next(
    spark: SparkSession,
    link: JournalLink,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clause: str,
    external: bool,
    published: bool,
) -> None:
    location = f"LOCATION '{tmp_path / 'place'}'" if external else ""
    text = f"CREATE TABLE t USING parquet {clause} {location} AS {ROWS}"
    publish = V1Catalog.publish

    def die(*arguments: object) -> None:
        if published:
            publish(*arguments)  # type: ignore[arg-type]
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "publish", die)
        Ran(spark, text, link)
    assert link.steps == WRITTEN
    for _again in range(2):
        Ran(spark, text, link, left=left_by(link))
        assert checksum(spark, "t") == expected(spark)
        assert tables(spark) == ["t"]
        assert folders(spark) == ([] if external else ["t"])
    assert link.steps == WRITTEN
    assert not [one for one in tmp_path.rglob("*") if "headrace" in one.name]


def test_files_that_were_being_moved_are_moved_by_the_next(
    spark: SparkSession, link: JournalLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    text = f"CREATE TABLE t USING parquet PARTITIONED BY (k) LOCATION '{place}' AS {ROWS}"

    def die(*_arguments: object, **_options: object) -> None:
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "relocate", die)
        Ran(spark, text, link)
    assert link.staged is not None
    # As if the last of them had not been moved yet.
    record = link.staged.record
    last = record["files"][-1]
    staged = Path(record["rows_at"].removeprefix("file:"))
    (staged / last).parent.mkdir(parents=True, exist_ok=True)
    (place / last).rename(staged / last)
    Ran(spark, text, link, left=left_by(link))
    assert checksum(spark, "t") == expected(spark)
    assert not staged.exists()


def test_a_rename_that_was_made_and_answered_by_an_error_is_a_success(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import AnalysisException

    publish = V1Catalog.publish

    def fail(*arguments: object) -> None:
        publish(*arguments)  # type: ignore[arg-type]
        raise AnalysisException("the connection broke", messageParameters={})

    monkeypatch.setattr(V1Catalog, "publish", fail)
    Ran(spark, PARTITIONED, link)
    assert link.steps == WRITTEN
    assert checksum(spark, "t") == expected(spark)


def test_what_is_published_is_never_taken_back(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The rename is made, and after that the catalog cannot be asked."""
    monkeypatch.setattr("headrace.driver.ctas.transaction._PAUSES", (0.0,))
    text = PARTITIONED.replace("AS SELECT", f"LOCATION '{tmp_path / 'p'}' AS SELECT")

    publish, kind_of, renamed = V1Catalog.publish, V1Catalog.kind_of, []

    def publish_and_note(*arguments: object) -> None:
        publish(*arguments)  # type: ignore[arg-type]
        renamed.append(True)
        raise OSError("the connection broke")

    def ask(*arguments: object) -> str | None:
        if renamed:
            raise OSError("the connection broke")
        return kind_of(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(CommitUnfinished, match="broke"):
        patch.setattr(V1Catalog, "publish", publish_and_note)
        patch.setattr(V1Catalog, "kind_of", ask)
        Ran(spark, text, link)
    assert link.steps == WRITTEN
    Ran(spark, text, link, left=left_by(link))
    assert checksum(spark, "t") == expected(spark)


def at_commit(spark: SparkSession, link: JournalLink, *texts: str) -> None:
    """Somebody else does this between the write and the commit."""

    def meanwhile(state: TransactionState) -> None:
        if state is COMMITTING:
            for text in texts:
                spark.sql(text)

    link.before = meanwhile


def test_anothers_table_of_the_same_name_stays(spark: SparkSession, link: JournalLink) -> None:
    at_commit(spark, link, "CREATE TABLE t USING json AS SELECT 7 AS x")
    with pytest.raises(TableAlreadyExists, match="meanwhile"):
        Ran(spark, PARTITIONED, link)
    assert link.steps == [*WRITTEN, ABORTING, ABORTED]
    assert rows(spark, "SELECT * FROM t") == [(7,)]
    assert tables(spark) == folders(spark) == ["t"]


def test_anothers_files_at_its_place_stay(
    spark: SparkSession, link: JournalLink, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    text = f"CREATE TABLE t USING parquet LOCATION '{place}' AS SELECT 1 AS id"

    def meanwhile(state: TransactionState) -> None:
        if state is COMMITTING:
            [written] = list(place.rglob("part-*.parquet"))
            (place / written.name).write_text("not yours")
            (place / "other").write_text("nor this")

    link.before = meanwhile
    with pytest.raises(LocationNotEmpty, match="stay"):
        Ran(spark, text, link)
    assert tables(spark) == []
    assert sorted(one.read_text() for one in place.iterdir()) == ["nor this", "not yours"]


def test_a_staged_table_that_somebody_drops_is_told(spark: SparkSession, link: JournalLink) -> None:
    def meanwhile(state: TransactionState) -> None:
        if state is COMMITTING:
            [staged] = tables(spark)
            spark.sql(f"DROP TABLE {staged}")

    link.before = meanwhile
    with pytest.raises(CatalogError, match="somebody has dropped"):
        Ran(spark, PARTITIONED, link)
    assert tables(spark) == folders(spark) == []
