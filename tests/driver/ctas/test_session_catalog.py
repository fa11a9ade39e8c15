"""CTAS in Spark's in-memory session catalog is atomic for every file format."""

from __future__ import annotations

import shutil
from datetime import date
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
    list_directories,
    list_tables,
)
from tests.support.journal import JournalLink
from tests.support.pairs import for_pairs

from headrace.driver.ctas import Cancelled, CommitUnfinished
from headrace.driver.spark_version.catalogs import V1Catalog
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
SHAPES = {
    "plain": ("", False),
    "partitioned": ("PARTITIONED BY (k)", False),
    "external": ("PARTITIONED BY (k)", True),
}
"""Clauses of a CTAS, and whether it has a location."""
ODD = "a b%20c#d?e&f+é%"
"""A name with characters that URIs escape."""
ODD_ROWS = f"SELECT *, '{ODD}' AS odd FROM ({ROWS})"
PLACES = {
    "plain": ("plain", "PARTITIONED BY (odd, k)"),
    "space": ("with space é", "PARTITIONED BY (k)"),
    "percent": ("%20", "PARTITIONED BY (k)"),
    "odd": (ODD, ""),
    "odd-partitioned": (ODD, "PARTITIONED BY (odd, k)"),
}
"""The directory of a database, and clauses of a CTAS in it."""
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
def test_a_ctas_creates_a_complete_table_in_every_format(
    spark: SparkSession, link: JournalLink, definition: str
) -> None:
    run = CtasRun(spark, f"CREATE TABLE t {definition} AS {ROWS}", link)
    assert (run.rows, run.plan.atomic, link.steps) == ([], True, WRITTEN)
    assert checksum(spark, "t") == expected_checksum(spark)
    assert fetch_rows(spark, "SELECT count(*) FROM t WHERE k = 1") == [(33,)]
    assert (list_tables(spark), list_directories(spark)) == (["t"], ["t"])


@for_pairs(1, place=PLACES, external={"managed": False, "external": True})
def test_a_ctas_creates_a_complete_table_in_a_directory_of_any_name(
    spark: SparkSession,
    link: JournalLink,
    tmp_path: Path,
    place: tuple[str, str],
    external: bool,
) -> None:
    directory, clauses = place
    spark.sql(f"CREATE DATABASE odd LOCATION '{tmp_path}/{directory}'")
    location = f"LOCATION '{tmp_path}/ex{directory}'" if external else ""
    text = f"CREATE TABLE odd.t USING parquet {clauses} {location} AS {ODD_ROWS}"
    try:
        run = CtasRun(spark, text, link)
        assert (run.rows, run.plan.atomic, link.steps) == ([], True, WRITTEN)
        assert checksum(spark, "odd.t") == expected_checksum(spark)
        assert fetch_rows(spark, "SELECT count(*) FROM odd.t WHERE k = 1") == [(33,)]
        assert fetch_rows(spark, "SELECT DISTINCT odd FROM odd.t") == [(ODD,)]
        spark.sql(f"INSERT OVERWRITE odd.t BY NAME {ODD_ROWS}")
        assert checksum(spark, "odd.t") == expected_checksum(spark)
        names = {path.name for path in tmp_path.iterdir()}
        assert names == ({directory, f"ex{directory}"} if external else {directory})
    finally:
        spark.sql("DROP DATABASE odd CASCADE")


def test_comment_and_properties_of_the_statement_are_kept(
    spark: SparkSession, link: JournalLink
) -> None:
    text = f"CREATE TABLE t USING parquet COMMENT 'x' TBLPROPERTIES ('a' = 'b') AS {ROWS}"
    CtasRun(spark, text, link)
    properties = dict(fetch_rows(spark, "SHOW TBLPROPERTIES t"))
    assert properties["a"] == "b"
    assert properties["headrace.txn"].startswith("tx_")
    described = {row[0]: row[1] for row in fetch_rows(spark, "DESCRIBE EXTENDED t")}
    assert described["Comment"] == "x"
    assert described["Type"] == "MANAGED"


@pytest.mark.finding("U16")
def test_a_copied_transaction_property_proves_nothing(
    spark: SparkSession, link: JournalLink
) -> None:
    CtasRun(spark, f"CREATE TABLE t USING parquet AS {ROWS}", link)
    [(definition,)] = fetch_rows(spark, "SHOW CREATE TABLE t")
    assert "headrace.txn" in definition
    # The definition creates an ordinary table, which a later CTAS does not take for its own.
    spark.sql(definition.replace(".t (", ".u (", 1))
    with pytest.raises(TableAlreadyExists):
        CtasRun(spark, f"CREATE TABLE u USING parquet AS {ROWS}", JournalLink())
    assert fetch_rows(spark, "SELECT count(*) FROM u") == [(0,)]
    # A CTAS with the copied property has the property of its own transaction.
    copied = dict(fetch_rows(spark, "SHOW TBLPROPERTIES t"))["headrace.txn"]
    text = f"CREATE TABLE v USING parquet TBLPROPERTIES ('headrace.txn' = '{copied}') AS {ROWS}"
    CtasRun(spark, text, JournalLink())
    own = dict(fetch_rows(spark, "SHOW TBLPROPERTIES v"))["headrace.txn"]
    assert own.startswith("tx_")
    assert own != copied


def test_statements_that_spell_a_location_differently_publish_in_one_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    spellings = ["{}/a b", "{}/x/../a b/", "FILE:{}/link/a b", "file://{}//link/./a b"]
    places = set()
    for number, spelling in enumerate(spellings):
        link, location = JournalLink(), spelling.format(tmp_path)
        CtasRun(spark, f"CREATE TABLE t{number} LOCATION '{location}' AS SELECT 1 AS id", link)
        spark.sql(f"DROP TABLE t{number}")
        shutil.rmtree(tmp_path / "a b")
        assert link.staged is not None
        places.add(link.staged.place)

    assert places == {f"file:{tmp_path}/a b"}


@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (k)"])
def test_a_table_with_a_location_has_its_files_there_without_staged_ones(
    spark: SparkSession, link: JournalLink, tmp_path: Path, clause: str
) -> None:
    location = tmp_path / "a" / "b"
    CtasRun(spark, f"CREATE TABLE t USING parquet {clause} LOCATION '{location}' AS {ROWS}", link)
    assert checksum(spark, "t") == expected_checksum(spark)
    assert (list_tables(spark), list_directories(spark)) == (["t"], [])
    assert not [path for path in location.rglob("*") if "headrace" in path.name]
    # The table is external, so that DROP keeps its files.
    spark.sql("DROP TABLE t")
    assert fetch_rows(spark, f"SELECT count(*) FROM parquet.`{location}`") == [(100,)]


def test_the_name_can_be_an_expression_and_values_can_be_parameters(
    spark: SparkSession, link: JournalLink
) -> None:
    named = [Parameter(name="a", value=3), Parameter(name="d", value="2020-01-01", type="DATE")]
    CtasRun(
        spark,
        "CREATE TABLE IDENTIFIER('t' || 'x') USING json AS SELECT :a AS a, :d AS d",
        link,
        parameters=named,
    )
    assert fetch_rows(spark, "SELECT * FROM tx") == [(3, date(2020, 1, 1))]
    by_position = [Parameter(value="x"), Parameter(value=2)]
    text = "CREATE TABLE `ty` USING json AS SELECT ? AS a, ? AS b"
    CtasRun(spark, text, JournalLink(), parameters=by_position)
    assert fetch_rows(spark, "SELECT * FROM ty") == [("x", 2)]
    assert list_tables(spark) == list_directories(spark) == ["tx", "ty"]


def test_the_target_can_be_in_a_database_that_is_not_the_current_one(
    spark: SparkSession, link: JournalLink, database: str
) -> None:
    spark.sql("USE default")
    try:
        CtasRun(spark, f"CREATE TABLE spark_catalog.{database}.t USING parquet AS {ROWS}", link)
        assert checksum(spark, f"{database}.t") == expected_checksum(spark)
    finally:
        spark.sql(f"USE {database}")


@pytest.mark.parametrize(("clause", "external"), SHAPES.values(), ids=SHAPES)
def test_a_failed_ctas_leaves_no_table_and_no_file(
    spark: SparkSession, link: JournalLink, tmp_path: Path, clause: str, external: bool
) -> None:
    location = tmp_path / "location"
    location_clause = f"LOCATION '{location}'" if external else ""
    text = f"CREATE TABLE t USING parquet {clause} {location_clause} AS "
    with pytest.raises(Exception, match="half-way"):
        CtasRun(spark, text + FAILING, link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert list_tables(spark) == list_directories(spark) == []
    assert not location.exists()
    CtasRun(spark, text + ROWS, JournalLink())
    assert checksum(spark, "t") == expected_checksum(spark)


@pytest.mark.parametrize("state", WRITTEN)
def test_a_cancelled_ctas_leaves_no_table_and_no_file(
    spark: SparkSession, link: JournalLink, state: TransactionState
) -> None:
    link.refused_states = {state}
    with pytest.raises(Cancelled):
        CtasRun(spark, PARTITIONED, link)
    assert list_tables(spark) == list_directories(spark) == []
    assert link.steps[-1:] == ([] if state is PREPARED else [ABORTED])


@for_pairs(1, shape=SHAPES, state={str(state): state for state in (BEGUN, COMMITTING)})
def test_the_next_attempt_rolls_back_a_crash_before_the_commit(
    spark: SparkSession,
    link: JournalLink,
    tmp_path: Path,
    shape: tuple[str, bool],
    state: TransactionState,
) -> None:
    clause, external = shape
    location_clause = f"LOCATION '{tmp_path / 'location'}'" if external else ""
    text = f"CREATE TABLE t USING parquet {clause} {location_clause} AS {ROWS}"
    crash_before(link, state)
    with pytest.raises(Crash):
        CtasRun(spark, text, link)
    link.before_step = lambda _state: None
    entry = journal_entry(link)
    next_link = JournalLink()
    next_link.steps = link.steps
    CtasRun(spark, text, next_link, earlier=entry)
    assert next_link.steps[-5:] == [ABORTING, ABORTED, *WRITTEN]
    assert checksum(spark, "t") == expected_checksum(spark)
    assert list_tables(spark) == ["t"]
    assert list_directories(spark) == ([] if external else ["t"])


@pytest.mark.parametrize(("clause", "external"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("published", [False, True])
def test_the_next_attempt_completes_a_crash_during_the_commit(
    spark: SparkSession,
    link: JournalLink,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    clause: str,
    external: bool,
    published: bool,
) -> None:
    location_clause = f"LOCATION '{tmp_path / 'location'}'" if external else ""
    text = f"CREATE TABLE t USING parquet {clause} {location_clause} AS {ROWS}"
    publish = V1Catalog.publish

    def crash(*arguments: object) -> None:
        if published:
            publish(*arguments)  # type: ignore[arg-type]
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "publish", crash)
        CtasRun(spark, text, link)
    assert link.steps == WRITTEN
    for _again in range(2):
        CtasRun(spark, text, link, earlier=journal_entry(link))
        assert checksum(spark, "t") == expected_checksum(spark)
        assert list_tables(spark) == ["t"]
        assert list_directories(spark) == ([] if external else ["t"])
    assert link.steps == WRITTEN
    assert not [path for path in tmp_path.rglob("*") if "headrace" in path.name]


def test_the_next_attempt_moves_the_remaining_files_to_the_location(
    spark: SparkSession, link: JournalLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "location"
    text = f"CREATE TABLE t USING parquet PARTITIONED BY (k) LOCATION '{location}' AS {ROWS}"

    def crash(*_arguments: object, **_options: object) -> None:
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "relocate", crash)
        CtasRun(spark, text, link)
    assert link.staged is not None
    # Undo the move of the last file, as if the crash had come before it.
    record = link.staged.record
    last = record["files"][-1]
    staged = Path(record["staging_location"].removeprefix("file:"))
    (staged / last).parent.mkdir(parents=True, exist_ok=True)
    (location / last).rename(staged / last)
    CtasRun(spark, text, link, earlier=journal_entry(link))
    assert checksum(spark, "t") == expected_checksum(spark)
    assert not staged.exists()


def test_a_rename_that_completed_but_reported_an_error_is_a_success(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import AnalysisException

    publish = V1Catalog.publish

    def fail(*arguments: object) -> None:
        publish(*arguments)  # type: ignore[arg-type]
        raise AnalysisException("the connection broke", messageParameters={})

    monkeypatch.setattr(V1Catalog, "publish", fail)
    CtasRun(spark, PARTITIONED, link)
    assert link.steps == WRITTEN
    assert checksum(spark, "t") == expected_checksum(spark)


def test_a_published_table_is_never_removed(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The rename completes, and the catalog is out of reach afterwards."""
    monkeypatch.setattr("headrace.driver.ctas.transaction._COMMIT_RETRY_PAUSES", (0.0,))
    text = PARTITIONED.replace("AS SELECT", f"LOCATION '{tmp_path / 'p'}' AS SELECT")

    publish, kind_of, renamed = V1Catalog.publish, V1Catalog.kind_of, []

    def publish_and_disconnect(*arguments: object) -> None:
        publish(*arguments)  # type: ignore[arg-type]
        renamed.append(True)
        raise OSError("the connection broke")

    def kind_of_or_fail(*arguments: object) -> str | None:
        if renamed:
            raise OSError("the connection broke")
        return kind_of(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(CommitUnfinished, match="broke"):
        patch.setattr(V1Catalog, "publish", publish_and_disconnect)
        patch.setattr(V1Catalog, "kind_of", kind_of_or_fail)
        CtasRun(spark, text, link)
    assert link.steps == WRITTEN
    CtasRun(spark, text, link, earlier=journal_entry(link))
    assert checksum(spark, "t") == expected_checksum(spark)


def run_before_commit(spark: SparkSession, link: JournalLink, *texts: str) -> None:
    """Run statements of another user between the write and the commit."""

    def act_before_commit(state: TransactionState) -> None:
        if state is COMMITTING:
            for text in texts:
                spark.sql(text)

    link.before_step = act_before_commit


def test_another_users_table_of_the_same_name_is_kept(
    spark: SparkSession, link: JournalLink
) -> None:
    run_before_commit(spark, link, "CREATE TABLE t USING json AS SELECT 7 AS x")
    with pytest.raises(TableAlreadyExists, match="while the statement ran"):
        CtasRun(spark, PARTITIONED, link)
    assert link.steps == [*WRITTEN, ABORTING, ABORTED]
    assert fetch_rows(spark, "SELECT * FROM t") == [(7,)]
    assert list_tables(spark) == list_directories(spark) == ["t"]


def test_another_users_files_at_the_location_are_kept(
    spark: SparkSession, link: JournalLink, tmp_path: Path
) -> None:
    location = tmp_path / "location"
    text = f"CREATE TABLE t USING parquet LOCATION '{location}' AS SELECT 1 AS id"

    def act_before_commit(state: TransactionState) -> None:
        if state is COMMITTING:
            [written] = list(location.rglob("part-*.parquet"))
            (location / written.name).write_text("not yours")
            (location / "other").write_text("nor this")

    link.before_step = act_before_commit
    with pytest.raises(LocationNotEmpty, match="not changed"):
        CtasRun(spark, text, link)
    assert list_tables(spark) == []
    assert sorted(path.read_text() for path in location.iterdir()) == ["nor this", "not yours"]


def test_a_dropped_staged_table_is_reported_as_an_error(
    spark: SparkSession, link: JournalLink
) -> None:
    def act_before_commit(state: TransactionState) -> None:
        if state is COMMITTING:
            [staged] = list_tables(spark)
            spark.sql(f"DROP TABLE {staged}")

    link.before_step = act_before_commit
    with pytest.raises(CatalogError, match="was dropped before"):
        CtasRun(spark, PARTITIONED, link)
    assert list_tables(spark) == list_directories(spark) == []


@pytest.mark.catalogs
@for_lakes("parquet")
def test_avro_and_text_tables_are_atomic(namespace: LakeNamespace, link: JournalLink) -> None:
    """Avro is a connector that Spark does not include. Text tables have a single column."""
    avro = namespace.ctas(ROWS).replace("USING parquet", "USING avro")
    assert CtasRun(namespace.spark, avro, link).plan.atomic is True
    assert checksum(namespace.spark, namespace.table) == expected_checksum(namespace.spark)
    name = f"{namespace.name}.words"
    text = f"CREATE TABLE {name} USING text AS SELECT 'a b' AS value"
    CtasRun(namespace.spark, text, JournalLink())
    assert fetch_rows(namespace.spark, f"SELECT * FROM {name}") == [("a b",)]
    assert namespace.tables == ["t", "words"]
