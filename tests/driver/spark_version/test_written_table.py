"""Files of a two-phase write."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.driver.spark_version import written_table
from headrace.driver.spark_version.catalogs import TablePath, V1Catalog
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.written_table import StagedFiles, WrittenTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = "a \u2028 b\n"


def test_a_text_replaces_a_file_of_hadoop_with_its_checksum(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, files = f"{tmp_path.as_uri()}/a%20b", HadoopFiles(spark)
    files.replace(place, "earlier")
    StagedFiles(spark).write(place, TEXT)
    assert (StagedFiles(spark).read(place), files.read_text(place)) == (TEXT, TEXT)
    assert [path.name for path in tmp_path.iterdir()] == ["a%20b"]


def test_a_text_is_written_into_a_new_folder_with_the_umask_of_the_configuration(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, files = tmp_path / "new" / "file", HadoopFiles(spark)
    files.conf.set("fs.permissions.umask-mode", "077")
    StagedFiles(spark, files.conf).write(str(place), TEXT)
    assert (place.read_text(), stat.S_IMODE(place.stat().st_mode)) == (TEXT, 0o600)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("file:/a/b", "file:/a/b"),
        ("file:///a/b", "file:/a/b"),
        ("file:/a/./b/../c", "file:/a/c"),
        ("file:/a//b/", "file:/a/b"),
        ("file:/a/..b/.c", "file:/a/..b/.c"),
        ("FILE:/a", "file:/a"),
        ("/a b/c%20d", "file:/a b/c%20d"),
    ],
)
def test_a_location_is_completed_as_hadoop_does(
    spark: SparkSession, location: str, expected: str
) -> None:
    assert HadoopFiles(spark).qualify(location) == expected


def test_only_a_table_with_files_has_a_state(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("CREATE OR REPLACE VIEW a_view AS SELECT 1 AS id")
    spark.sql("CREATE TABLE a_table (id INT) USING parquet")

    def has_state(name: str, **changes: Any) -> bool:
        """Return whether a table has a state if the catalog says this of it too."""
        path = TablePath("spark_catalog", ("default",), name)
        entry = V1Catalog(spark).find(path)
        changed = None if entry is None else replace(entry, **changes)
        with monkeypatch.context() as patch:
            patch.setattr(V1Catalog, "find", lambda _self, _path: changed)
            return WrittenTable(spark, path, HadoopFiles(spark)).read_state() is not None

    try:
        assert has_state("a_table")
        assert not has_state("a_table", location=None)
        # Spark stores a view without a location. A metastore may have views of other engines.
        assert not has_state("a_table", is_view=True)
        assert not has_state("a_view")
        assert not has_state("no_table")
    finally:
        spark.sql("DROP VIEW a_view")
        spark.sql("DROP TABLE a_table")


@pytest.mark.parametrize("asked_one_by_one", [1, 100])
def test_partitions_are_found_by_their_paths(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, asked_one_by_one: int
) -> None:
    monkeypatch.setattr(written_table, "_PARTITIONS_TO_ASK_FOR", asked_one_by_one)
    spark.sql("CREATE TABLE a_table (id INT) USING parquet PARTITIONED BY (S STRING, day DATE)")
    values = ["'a/b c=%d'", "'x.y*'", "''", "NULL"]
    try:
        rows = ", ".join(f"(1, {value}, DATE '2026-01-02')" for value in values)
        spark.sql(f"INSERT INTO a_table VALUES {rows}, (2, 'plain', DATE '2026-01-03')")
        path = TablePath("spark_catalog", ("default",), "a_table")
        table = WrittenTable(spark, path, HadoopFiles(spark))
        every = table.list_partitions({})
        assert len(every) == 4  # an empty string becomes NULL
        missing = ["S=plain/day=2026-01-02", "S=x%2Ey/day=2026-01-02"]
        for chosen in ([*every], [*every][1:], missing, []):
            found = table.find_partitions([*chosen, *missing])
            assert found == {path: every[path] for path in chosen if path in every}
        # Hive writes the names of columns in lower case.
        lower = {path.replace("S=", "s="): location for path, location in every.items()}
        assert table.find_partitions(lower) == lower
    finally:
        spark.sql("DROP TABLE a_table")
