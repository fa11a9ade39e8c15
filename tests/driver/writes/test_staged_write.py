"""An INSERT into a table of files adds all its rows or none, in every format and mode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.ctas import CtasRun, fetch_rows
from tests.support.journal import JournalLink
from tests.support.staged_writes import (
    ADDED,
    APPEND,
    COLUMNS,
    NEW,
    OLD,
    OVERWRITE,
    create,
    leftovers,
    list_files,
    location,
    rows,
)

from headrace.driver.ctas import Cancelled
from headrace.errors import AtomicityRequired, CatalogError
from headrace.model.headrace_options import WRITES_ATOMICITY
from headrace.model.lifecycle import TransactionState
from headrace.model.statement import Parameter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

PREPARED, BEGUN = TransactionState.PREPARED, TransactionState.BEGUN
COMMITTING = TransactionState.COMMITTING
ABORTING, ABORTED = TransactionState.ABORTING, TransactionState.ABORTED
WRITTEN = [PREPARED, BEGUN, COMMITTING]
FORMATS = [
    "USING parquet",
    "USING orc",
    "USING json",
    "USING csv OPTIONS (header 'true')",
    "USING parquet CLUSTERED BY (id) SORTED BY (id) INTO 3 BUCKETS",
    "USING parquet PARTITIONED BY (k)",
    "USING json PARTITIONED BY (k, s)",
    "USING orc PARTITIONED BY (k) CLUSTERED BY (id) INTO 2 BUCKETS",
]
KINDS = [
    pytest.param(each, marks=[pytest.mark.matrix] if each in FORMATS[1:3] else [])
    for each in FORMATS
]
"""The same; `make test` has formats that differ only in the encoder of rows in one test."""
STATIC = "INSERT OVERWRITE written PARTITION (k = 1) SELECT id, 'new' FROM range(500, 503)"
DYNAMIC = "INSERT OVERWRITE written BY NAME SELECT id, 'new' AS s, 2 AS k FROM range(500, 503)"
FAILING = "INSERT {} written SELECT id, raise_error('half-way'), 1 FROM range(0, 100, 1, 4)"


@pytest.mark.parametrize("definition", FORMATS)
def test_an_append_adds_all_rows(spark: SparkSession, link: JournalLink, definition: str) -> None:
    create(spark, definition)
    run = CtasRun(spark, APPEND, link)
    assert (run.rows, run.plan.atomic, run.plan.describe_outcome().note, link.steps) == (
        [],
        True,
        None,
        WRITTEN,
    )
    assert run.plan.hook is not None
    assert run.plan.hook.rows_written == 30
    assert rows(spark) == sorted(OLD + ADDED)
    assert fetch_rows(spark, "SELECT count(*) FROM written WHERE k = 1") == [(13,)]
    assert leftovers(spark) == []
    assert sum(link.transaction.removeprefix("tx_") in file for file in list_files(spark)) >= 1


@pytest.mark.parametrize("definition", KINDS)
def test_an_overwrite_replaces_all_rows(
    spark: SparkSession, link: JournalLink, definition: str
) -> None:
    create(spark, definition)
    run = CtasRun(spark, OVERWRITE, link)
    assert (run.plan.atomic, link.steps) == (True, WRITTEN)
    assert "readers may have seen rows of both" in (run.plan.describe_outcome().note or "")
    assert rows(spark) == ADDED
    assert leftovers(spark) == []
    assert all(link.transaction.removeprefix("tx_") in file for file in list_files(spark))


@pytest.mark.parametrize("definition", [each for each in FORMATS if "(k)" in each])
def test_a_static_partition_is_replaced_and_no_other(
    spark: SparkSession, link: JournalLink, definition: str
) -> None:
    create(spark, definition)
    CtasRun(spark, STATIC, link)
    kept = [row for row in OLD if row[2] != 1]
    assert rows(spark) == sorted([*kept, *((id_, "new", 1) for id_ in range(500, 503))])


@pytest.mark.parametrize("definition", [each for each in FORMATS if "PARTITIONED BY (k" in each])
def test_a_dynamic_overwrite_replaces_the_partitions_that_it_writes(
    spark: SparkSession, link: JournalLink, definition: str
) -> None:
    create(spark, definition)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        CtasRun(spark, DYNAMIC, link)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    is_nested = "(k, s)" in definition
    kept = [row for row in OLD if row[2] != 2 or is_nested]
    assert rows(spark) == sorted([*kept, *((id_, "new", 2) for id_ in range(500, 503))])


def test_an_overwrite_drops_the_partitions_without_rows(
    spark: SparkSession, link: JournalLink
) -> None:
    create(spark, "USING parquet PARTITIONED BY (k)")
    CtasRun(spark, "INSERT OVERWRITE written BY NAME SELECT 7 AS id, 'x' AS s, 9 AS k", link)
    assert fetch_rows(spark, "SHOW PARTITIONS written") == [("k=9",)]
    assert rows(spark) == [(7, "x", 9)]
    assert [path.name for path in location(spark).iterdir() if path.is_dir()] == ["k=9"]


@pytest.mark.parametrize("text", [APPEND, OVERWRITE])
def test_a_partition_that_was_dropped_before_the_statement_wrote_is_added_again(
    spark: SparkSession, link: JournalLink, text: str
) -> None:
    """A statement that held the write lock before may drop partitions after the planning."""
    create(spark, "USING parquet PARTITIONED BY (k)")

    def drop(state: TransactionState) -> None:
        if state is BEGUN:
            spark.sql("ALTER TABLE written DROP PARTITION (k = 1)")

    link.before_step = drop
    CtasRun(spark, text, link)
    kept = [row for row in OLD if row[2] != 1] if text == APPEND else []
    assert rows(spark) == sorted(kept + ADDED)
    assert len(fetch_rows(spark, "SHOW PARTITIONS written")) == 3


def test_values_of_partitions_with_special_characters_are_kept(
    spark: SparkSession, link: JournalLink
) -> None:
    spark.sql("CREATE TABLE written (id BIGINT, s STRING) USING parquet PARTITIONED BY (s)")
    CtasRun(spark, "INSERT INTO written VALUES (1, 'a/b c=%d'), (2, NULL), (3, '')", link)
    CtasRun(spark, "INSERT INTO written VALUES (4, 'a/b c=%d'), (5, 'ü')", link)
    assert sorted(fetch_rows(spark, "SELECT id, s FROM written")) == [
        (1, "a/b c=%d"),
        (2, None),
        (3, None),
        (4, "a/b c=%d"),
        (5, "ü"),
    ]


def test_values_of_partitions_with_line_separators_are_kept(
    spark: SparkSession, link: JournalLink
) -> None:
    spark.sql("CREATE TABLE written (id BIGINT, s STRING) USING parquet PARTITIONED BY (s)")
    values = ["a\u2028b", "c\u0085d", "e\nf", "g\th"]
    for number, value in enumerate(values):
        parameters = [Parameter(value=number), Parameter(value=value)]
        for _ in range(2):
            CtasRun(
                spark, "INSERT INTO written VALUES (?, ?)", JournalLink(), parameters=parameters
            )
    CtasRun(spark, "INSERT INTO written VALUES (9, 'plain')", link)
    found = fetch_rows(spark, "SELECT s, count(*) FROM written WHERE id < 9 GROUP BY s ORDER BY s")
    assert found == [(value, 2) for value in sorted(values)]


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("partition", ["PARTITION (k = 1) SELECT 7, 'new'", "SELECT 7, 'new', 1"])
def test_an_overwrite_shows_no_rows_of_a_partition_that_was_dropped(
    spark: SparkSession, link: JournalLink, tmp_path: Path, mode: str, partition: str
) -> None:
    # The files of an external table stay when its partition is dropped.
    create(spark, f"USING parquet PARTITIONED BY (k) LOCATION '{tmp_path / 'rows'}'")
    spark.sql("ALTER TABLE written DROP PARTITION (k = 1)")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    try:
        CtasRun(spark, f"INSERT OVERWRITE written {partition}", link)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert fetch_rows(spark, "SELECT id, s FROM written WHERE k = 1") == [(7, "new")]


@pytest.mark.parametrize("verb", ["INTO", "OVERWRITE"])
@pytest.mark.parametrize("value", [1, 8])
def test_a_static_partition_without_rows_stays_or_is_added(
    spark: SparkSession, link: JournalLink, verb: str, value: int
) -> None:
    create(spark, "USING parquet PARTITIONED BY (k)")
    CtasRun(spark, f"INSERT {verb} written PARTITION (k = {value}) SELECT 1, 'x' WHERE false", link)
    partitions = [row[0] for row in fetch_rows(spark, "SHOW PARTITIONS written")]
    assert f"k={value}" in partitions
    kept = [row for row in OLD if verb == "INTO" or row[2] != value]
    assert rows(spark) == kept


def test_an_insert_into_a_computed_name_is_atomic(spark: SparkSession, link: JournalLink) -> None:
    create(spark)
    text = f"INSERT INTO IDENTIFIER('writ' || 'ten') BY NAME {NEW}"
    assert CtasRun(spark, text, link).plan.atomic
    assert rows(spark) == sorted(OLD + ADDED)


def test_if_not_exists_keeps_an_existing_partition(spark: SparkSession, link: JournalLink) -> None:
    create(spark, "USING parquet PARTITIONED BY (k)")
    text = "INSERT OVERWRITE written PARTITION (k = {}) IF NOT EXISTS SELECT 1, 'new'"
    run = CtasRun(spark, text.format(1), link)
    assert run.plan.hook is not None
    assert run.plan.hook.note == "Nothing was done: the partition already exists."
    assert rows(spark) == OLD
    CtasRun(spark, text.format(7), link)
    assert rows(spark) == sorted([*OLD, (1, "new", 7)])


def test_a_table_with_a_location_of_the_user(
    spark: SparkSession, link: JournalLink, tmp_path: Path
) -> None:
    place = tmp_path / "ours, 100% of it"
    create(spark, f"USING parquet PARTITIONED BY (k) LOCATION '{place}'")
    CtasRun(spark, APPEND, link)
    assert rows(spark) == sorted(OLD + ADDED)
    assert sorted(path.name for path in place.iterdir() if path.is_dir()) == ["k=0", "k=1", "k=2"]
    CtasRun(spark, OVERWRITE, JournalLink())
    assert rows(spark) == ADDED


def test_parameters_are_bound(spark: SparkSession, link: JournalLink) -> None:
    create(spark)
    parameters = [Parameter(name="id", value=7, type="bigint")]
    text = "INSERT INTO written SELECT :id, 'bound', 1"
    assert CtasRun(spark, text, link, parameters=parameters).plan.atomic
    assert (7, "bound", 1) in rows(spark)


def test_a_with_clause(spark: SparkSession, link: JournalLink) -> None:
    create(spark)
    run = CtasRun(spark, f"WITH v AS ({NEW}) INSERT INTO written BY NAME SELECT * FROM v", link)
    assert run.plan.atomic
    assert rows(spark) == sorted(OLD + ADDED)


def test_a_table_may_read_itself(spark: SparkSession, link: JournalLink) -> None:
    create(spark)
    CtasRun(spark, "INSERT INTO written SELECT id + 50, s, k FROM written", link)
    assert len(rows(spark)) == 20


@pytest.mark.parametrize("mode", ["INTO", "OVERWRITE"])
def test_a_failure_half_way_changes_nothing(
    spark: SparkSession, link: JournalLink, mode: str
) -> None:
    create(spark)
    files = list_files(spark)
    with pytest.raises(Exception, match="half-way"):
        CtasRun(spark, FAILING.format(mode), link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert (rows(spark), list_files(spark), leftovers(spark)) == (OLD, files, [])


@pytest.mark.parametrize("text", [APPEND, OVERWRITE])
def test_a_cancel_before_the_commit_changes_nothing(
    spark: SparkSession, link: JournalLink, text: str
) -> None:
    create(spark)
    link.refused_states = {COMMITTING}
    with pytest.raises(Cancelled):
        CtasRun(spark, text, link)
    assert link.steps == [PREPARED, BEGUN, ABORTING, ABORTED]
    assert (rows(spark), leftovers(spark)) == (OLD, [])


def test_a_schema_that_does_not_fit_is_refused_before_any_step(
    spark: SparkSession, link: JournalLink
) -> None:
    create(spark)
    with pytest.raises(Exception, match="INSERT_COLUMN_ARITY_MISMATCH"):
        CtasRun(spark, "INSERT INTO written SELECT 1", link)
    assert link.steps == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE written", "was dropped"),
        ("ALTER TABLE written ADD COLUMNS (extra INT)", "was altered or replaced"),
        ("ALTER TABLE written RENAME TO other", "was dropped"),
    ],
)
@pytest.mark.parametrize("text", [APPEND, OVERWRITE])
def test_a_target_that_changes_before_the_commit_is_not_written(
    spark: SparkSession, link: JournalLink, text: str, change: str, message: str, tmp_path: Path
) -> None:
    create(spark, f"USING parquet LOCATION '{tmp_path / 'mine'}'")
    files = list_files(spark)

    def change_table(step: TransactionState) -> None:
        if step is COMMITTING:
            spark.sql(change)

    link.before_step = change_table
    with pytest.raises(CatalogError, match=message):
        CtasRun(spark, text, link)
    assert link.steps == [*WRITTEN, ABORTING, ABORTED]
    remaining = sorted(
        path.name
        for path in (tmp_path / "mine").iterdir()
        if not path.name.startswith((".p", "._"))
    )
    assert remaining == sorted([*files, "_SUCCESS"])


def test_a_table_that_is_replaced_by_one_of_the_same_name_is_not_written(
    spark: SparkSession, link: JournalLink
) -> None:
    create(spark)

    def replace(step: TransactionState) -> None:
        if step is COMMITTING:
            spark.sql("DROP TABLE written")
            spark.sql(f"CREATE TABLE written {COLUMNS} USING parquet")

    link.before_step = replace
    with pytest.raises(CatalogError, match="was altered or replaced"):
        CtasRun(spark, APPEND, link)
    assert rows(spark) == []


def test_files_of_strangers_stay(spark: SparkSession, link: JournalLink) -> None:
    create(spark)
    folder = location(spark)
    (folder / ".stranger").write_text("hidden")
    (folder / "_log").mkdir()
    (folder / "_log" / "1.json").write_text("{}")
    CtasRun(spark, OVERWRITE, link)
    assert (folder / ".stranger").read_text() == "hidden"
    assert (folder / "_log" / "1.json").read_text() == "{}"
    assert rows(spark) == ADDED


def test_the_setting_selects_plain_spark(spark: SparkSession, link: JournalLink) -> None:
    create(spark)
    spark.conf.set(WRITES_ATOMICITY.key, "off")
    try:
        run = CtasRun(spark, APPEND, link)
    finally:
        spark.conf.unset(WRITES_ATOMICITY.key)
    assert (run.plan.hook, link.steps) == (None, [])
    assert rows(spark) == sorted(OLD + ADDED)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT OVERWRITE DIRECTORY '{}' USING parquet SELECT 1",
        "FROM (SELECT 1 AS a) INSERT INTO x SELECT a INSERT INTO y SELECT a",
        "BEGIN INSERT INTO x SELECT 1; END",
        "EXECUTE IMMEDIATE 'INSERT INTO x SELECT 1'",
    ],
)
def test_the_setting_refuses_what_cannot_be_whole(
    spark: SparkSession, link: JournalLink, tmp_path: Path, text: str
) -> None:
    spark.conf.set(WRITES_ATOMICITY.key, "require")
    try:
        with pytest.raises(AtomicityRequired, match=r"headrace\.writes\.atomicity"):
            CtasRun(spark, text.format(tmp_path / "files"), link)
    finally:
        spark.conf.unset(WRITES_ATOMICITY.key)
    assert not (tmp_path / "files").exists()
