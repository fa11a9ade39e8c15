"""Half-finished renames: the files of the table have moved, but its name has not changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.ctas import (
    ROWS,
    Crash,
    CtasRun,
    checksum,
    database_directory,
    expected_checksum,
    fetch_rows,
    journal_entry,
    list_directories,
    list_tables,
    orphan_transaction,
)
from tests.support.journal import JournalLink

from headrace.driver.ctas import recover
from headrace.driver.ctas.staged_table import MetastoreRenames
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.errors import CatalogError, LocationNotEmpty, TableAlreadyExists
from headrace.model.lifecycle import TransactionState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("database")]

TEXT = f"CREATE TABLE t USING parquet PARTITIONED BY (k) AS {ROWS}"
REPLACE = TEXT.replace("CREATE", "CREATE OR REPLACE")
COMMITTING = TransactionState.COMMITTING
_publish, _rename = V1Catalog.publish, V1Catalog.rename
_find_abandoned_location = MetastoreRenames._find_abandoned_location

Renaming = Callable[[V1Catalog, TablePath, TablePath], None]


@pytest.fixture(autouse=True)
def no_metastore_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.driver.ctas.staged_table._METASTORE_GRACE_SECONDS", 0.0)


@pytest.fixture
def database_path(spark: SparkSession, database: str) -> Path:
    """Directory of the test's database."""
    return database_directory(spark)


def staged_path(spark: SparkSession) -> TablePath:
    [[database]] = fetch_rows(spark, "SELECT current_database()")
    [staged] = [name for name in list_tables(spark) if name != "t"]
    return TablePath("spark_catalog", (database,), staged)


def complete_rename(
    spark: SparkSession, database_path: Path, staged: TablePath | None = None
) -> None:
    """Complete the rename of the staged table to `t`, as a slow metastore does."""
    path = staged or staged_path(spark)
    (database_path / "t").rename(database_path / path.table)
    _publish(V1Catalog(spark), path, path.sibling("t"))


def half_finished(make_error: Callable[[], BaseException]) -> Renaming:
    """Return a rename that moves the files and then raises an error."""

    def move(catalog: V1Catalog, path: TablePath, target: TablePath) -> None:
        source, new = (catalog.default_location(name) for name in (path, target))
        Path(source.removeprefix("file:")).rename(new.removeprefix("file:"))
        raise make_error()

    return move


def connection_error() -> Exception:
    from pyspark.errors import AnalysisException

    return AnalysisException("the metastore is gone", messageParameters={})


def crash_in_rename(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crash in the rename that publishes: the files have moved, the name is unchanged."""
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "publish", half_finished(Crash))
        CtasRun(spark, TEXT, link)


def first_then(first: Renaming, rest: Renaming) -> Renaming:
    """Return a rename that runs `first` once and `rest` afterwards."""
    pending = iter([first])

    def rename(catalog: V1Catalog, path: TablePath, target: TablePath) -> None:
        next(pending, rest)(catalog, path, target)

    return rename


def test_the_next_attempt_repairs_a_half_finished_rename(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_in_rename(spark, link, monkeypatch)
    assert list_directories(spark) == ["t"]
    assert list_tables(spark) != ["t"]
    CtasRun(spark, TEXT, link, earlier=journal_entry(link))
    assert checksum(spark, "t") == expected_checksum(spark)
    assert list_tables(spark) == list_directories(spark) == ["t"]


def test_a_half_finished_rename_that_reports_an_error_is_retried(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(V1Catalog, "publish", first_then(half_finished(connection_error), _publish))
    CtasRun(spark, TEXT, link)
    assert checksum(spark, "t") == expected_checksum(spark)
    assert list_tables(spark) == list_directories(spark) == ["t"]


def test_a_rename_that_cannot_be_repaired_is_reported_and_left_to_recovery(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(CatalogError, match="moved back"):
        patch.setattr(V1Catalog, "publish", first_then(half_finished(connection_error), _publish))
        patch.setattr(HadoopFiles, "move", lambda *_arguments: False)
        CtasRun(spark, TEXT, link)
    assert link.steps[-2:] == [COMMITTING, TransactionState.ABORTING]
    orphan_transaction(link)
    recover(spark, link.as_link())
    assert list_tables(spark) == list_directories(spark) == []


def test_files_follow_a_rename_that_completes_after_the_repair(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metastore was still working when the repair moved the files back."""

    def late(catalog: V1Catalog, path: TablePath, target: TablePath) -> None:
        source, new = (catalog.default_location(name) for name in (path, target))
        _publish(catalog, path, target)
        Path(new.removeprefix("file:")).rename(source.removeprefix("file:"))
        raise connection_error()

    monkeypatch.setattr(V1Catalog, "publish", late)
    CtasRun(spark, TEXT, link)
    assert checksum(spark, "t") == expected_checksum(spark)
    assert list_tables(spark) == list_directories(spark) == ["t"]


def test_a_slow_metastore_is_given_time_to_complete_the_rename(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, database_path: Path
) -> None:
    monkeypatch.setattr("headrace.driver.ctas.staged_table._METASTORE_GRACE_SECONDS", 600.0)

    def complete_during_check(self: MetastoreRenames, *arguments: Any) -> str | None:
        location = _find_abandoned_location(self, *arguments)
        if location is not None:
            complete_rename(spark, database_path)
        return location

    monkeypatch.setattr(MetastoreRenames, "_find_abandoned_location", complete_during_check)
    crash_in_rename(spark, link, monkeypatch)
    CtasRun(spark, TEXT, link, earlier=journal_entry(link))
    assert checksum(spark, "t") == expected_checksum(spark)
    assert list_tables(spark) == list_directories(spark) == ["t"]


def test_another_users_table_of_the_same_name_is_kept(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crash_in_rename(spark, link, monkeypatch)
    spark.sql(f"CREATE TABLE t USING json LOCATION '{tmp_path / 'theirs'}' AS SELECT 7 AS x")
    with pytest.raises(TableAlreadyExists):
        CtasRun(spark, TEXT, link, earlier=journal_entry(link))
    assert fetch_rows(spark, "SELECT x FROM t") == [(7,)]
    assert (list_tables(spark), list_directories(spark)) == (["t"], [])


def test_files_of_another_user_are_not_mistaken_for_a_half_finished_rename(
    spark: SparkSession, link: JournalLink, database_path: Path
) -> None:
    """The staged files were removed by hand, and other files are at the final location."""

    def act_before_commit(state: TransactionState) -> None:
        if state is COMMITTING:
            (database_path / staged_path(spark).table).rename(database_path / "elsewhere")
            (database_path / "t").mkdir()
            (database_path / "t" / "theirs").write_text("x")

    link.before_step = act_before_commit
    with pytest.raises(LocationNotEmpty, match=r"/t\. "):
        CtasRun(spark, TEXT, link)
    assert (database_path / "t" / "theirs").read_text() == "x"
    assert (list_tables(spark), list_directories(spark)) == ([], ["elsewhere", "t"])


def test_a_record_cannot_pass_off_files_of_another_user_as_those_of_its_table(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, database_path: Path
) -> None:
    """The driver has removed its staged files, and names a file of another directory."""
    crash_in_rename(spark, link, monkeypatch)
    (database_path / "t").rename(database_path / "elsewhere")
    (database_path / "t").mkdir()
    (database_path / "t" / "theirs").write_text("x")
    assert link.staged is not None
    record = link.staged.record | {"marker_file": "theirs"}
    link.staged = link.staged.model_copy(update={"record": record})
    with pytest.raises(LocationNotEmpty, match=r"/t\. "):
        CtasRun(spark, TEXT, link, earlier=journal_entry(link))

    assert (database_path / "t" / "theirs").read_text() == "x"


def test_a_published_table_has_no_file_of_its_transaction(
    spark: SparkSession, link: JournalLink, database_path: Path
) -> None:
    CtasRun(spark, TEXT, link)

    assert not list((database_path / "t").glob("*headrace*"))


@pytest.fixture
def existing_table(spark: SparkSession, database: str) -> None:
    """Create a table `t` with one row."""
    spark.sql("CREATE TABLE t USING json AS SELECT 7 AS x")


@pytest.mark.usefixtures("existing_table")
def test_a_half_finished_rename_of_the_replaced_table_is_repaired(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "rename", half_finished(Crash))
        CtasRun(spark, REPLACE, link)
    CtasRun(spark, REPLACE, link, earlier=journal_entry(link))
    assert checksum(spark, "t") == expected_checksum(spark)
    assert list_tables(spark) == list_directories(spark) == ["t"]


@pytest.mark.usefixtures("existing_table")
def test_a_half_finished_restore_of_the_replaced_table_is_repaired(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop_staged(catalog: V1Catalog, path: TablePath, _target: TablePath) -> None:
        catalog.drop(path)
        raise connection_error()

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(V1Catalog, "publish", drop_staged)
        patch.setattr(V1Catalog, "rename", first_then(_rename, half_finished(Crash)))
        CtasRun(spark, REPLACE, link)
    assert list_tables(spark) != ["t"]
    orphan_transaction(link)
    recover(spark, link.as_link())
    assert fetch_rows(spark, "SELECT x FROM t") == [(7,)]
    assert list_tables(spark) == list_directories(spark) == ["t"]


def test_a_rename_in_progress_does_not_count_as_files_of_another_user(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, database_path: Path
) -> None:
    """The files are at the final location before the name is. The journal orders the commits."""
    crash_in_rename(spark, JournalLink(), monkeypatch)

    def act_before_commit(state: TransactionState) -> None:
        if state is COMMITTING:
            complete_rename(spark, database_path, staged)

    staged = staged_path(spark)
    link.before_step = act_before_commit
    with pytest.raises(TableAlreadyExists, match="while the statement ran"):
        CtasRun(spark, TEXT, link)
    assert checksum(spark, "t") == expected_checksum(spark)
    assert list_tables(spark) == list_directories(spark) == ["t"]


@pytest.mark.parametrize("clause", ["", "IF NOT EXISTS"])
def test_a_table_that_appears_between_the_checks_counts_as_existing(
    spark: SparkSession, link: JournalLink, monkeypatch: pytest.MonkeyPatch, clause: str
) -> None:
    """The table appears after the check of its name and before the check of its location."""
    is_empty, others = HadoopFiles.is_empty, iter([TEXT])

    def create_then_check(
        files: HadoopFiles, location: str, *, ignore_prefix: str | None = None
    ) -> bool:
        for text in others:
            spark.sql(text)
        return is_empty(files, location, ignore_prefix=ignore_prefix)

    monkeypatch.setattr(HadoopFiles, "is_empty", create_then_check)
    text = TEXT.replace("TABLE", f"TABLE {clause}")
    if clause:
        assert "already exists" in str(CtasRun(spark, text, link).plan.note)
    else:
        with pytest.raises(TableAlreadyExists):
            CtasRun(spark, text, link)
    assert link.steps == []
