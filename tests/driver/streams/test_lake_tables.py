"""Delta and Iceberg as sources and sinks of streaming queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.stream_expectations import CHECKS, FAILING, job_rows, summarize
from tests.support.streams import StartRun, finish, forget_commits, read_rows

from headrace.driver.spark_version.bridge import Py4JBridge
from headrace.driver.streams.supervised_query import RunFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.catalogs]

NOW = "TRIGGER AVAILABLE NOW"
DELTA_TABLE = "spark_catalog.default.stream_lake"
ICEBERG_TABLE = "files.db.stream_lake"
TABLES = [
    pytest.param(DELTA_TABLE, "delta", id="delta"),
    pytest.param(ICEBERG_TABLE, "iceberg", id="iceberg"),
]
DELTA_AS_MATRIX = [
    pytest.param(DELTA_TABLE, "delta", id="delta", marks=pytest.mark.matrix),
    pytest.param(ICEBERG_TABLE, "iceberg", id="iceberg"),
]


@pytest.fixture
def stream_session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """Yield a session whose catalog is Delta's, with an Iceberg catalog `files`."""
    session = spark.newSession()
    for key, value in {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.catalog.files": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.files.type": "hadoop",
        # As in a driver: another session would not see what a query has written.
        "spark.sql.catalog.files.cache-enabled": "false",
        "spark.sql.catalog.files.warehouse": str(tmp_path / "files"),
    }.items():
        session.conf.set(key, value)
    Py4JBridge(session).activate()
    yield session
    session.sql(f"DROP TABLE IF EXISTS {DELTA_TABLE}")
    Py4JBridge(spark).activate()


def add_number(folder: Path, number: int) -> None:
    """Add one number to the input of the stream `numbers`."""
    (folder / "input" / f"{number}.json").write_text(f'{{"n": {number}, "even": true}}')


def read_numbers(session: SparkSession, table: str) -> list[int]:
    return sorted(row["n"] for row in read_rows(session.table(table)))


def read_memory(start: StartRun, spark: SparkSession, save: str, *definitions: str) -> list[int]:
    """Run a query that writes to the memory sink `seen`, and return its numbers."""
    finish(start(f"{save} TO memory IDENTIFIED BY seen {NOW}", *definitions))
    numbers = read_numbers(spark, "seen")
    spark.catalog.dropTempView("seen")
    return numbers


@pytest.mark.parametrize(("table", "format_"), TABLES)
def test_expectations_are_counted_and_the_row_that_fails_is_never_published(
    start: StartRun,
    stream_session: SparkSession,
    numbers: str,
    tmp_path: Path,
    table: str,
    format_: str,
) -> None:
    stream_session.sql(f"CREATE TABLE {table} (even BOOLEAN, n INT) USING {format_}")
    save = f"SAVE STREAM numbers TO TABLE {table} {NOW}"
    run = start(save, numbers, rows=job_rows(CHECKS))
    finish(run)
    counted = summarize(run)
    folder, written = run.lineage
    assert (folder.key, folder.is_written) == (f"file:{tmp_path}/input", False)
    assert (written.key, written.is_written) == (table, True)
    assert counted == {0: (10, 3, 7, [(3, 0), (2, 1)])}
    # The driver was lost between the commit of the table and that of the checkpoint. Delta does
    # not compute the rows again, and Iceberg computes them and then finds its commit.
    forget_commits(tmp_path)
    again = start(save, numbers, rows=job_rows(CHECKS))
    finish(again)
    assert summarize(again) == ({0: None} if format_ == "delta" else counted)
    (tmp_path / "input" / "null.json").write_text('{"n": null, "even": true}')
    with pytest.raises(RunFailed, match="`numbered` by at least 1 row") as caught:
        finish(start(save, numbers, rows=job_rows(FAILING)))
    assert caught.value.is_permanent
    assert read_numbers(stream_session, table) == list(range(3, 10))


@pytest.mark.parametrize(("table", "format_"), TABLES)
def test_a_table_with_a_log_gets_each_batch_once(
    start: StartRun,
    stream_session: SparkSession,
    numbers: str,
    tmp_path: Path,
    table: str,
    format_: str,
) -> None:
    stream_session.sql(f"CREATE TABLE {table} (even BOOLEAN, n INT) USING {format_}")
    save = f"SAVE STREAM numbers TO TABLE {table} {NOW}"
    finish(start(save, numbers))
    forget_commits(tmp_path)
    run = start(save, numbers)
    finish(run)
    assert [batch.batch for batch in run.read_new_batches(None)] == [0]
    add_number(tmp_path, 10)
    finish(start(save, numbers))

    assert read_numbers(stream_session, table) == list(range(11))


@pytest.mark.parametrize(("table", "format_"), DELTA_AS_MATRIX)
def test_the_complete_mode_replaces_the_rows_of_a_table(
    start: StartRun,
    stream_session: SparkSession,
    numbers: str,
    tmp_path: Path,
    table: str,
    format_: str,
) -> None:
    stream_session.sql(f"CREATE TABLE {table} (n BIGINT) USING {format_}")
    counts = "CREATE STREAM counts AS SELECT count(*) AS n FROM numbers"
    save = f"SAVE STREAM counts TO TABLE {table} {NOW} OUTPUT MODE COMPLETE"
    finish(start(save, numbers, counts))
    add_number(tmp_path, 10)
    finish(start(save, numbers, counts))

    assert read_numbers(stream_session, table) == [11]


def test_files_of_delta_get_each_batch_once(
    start: StartRun, stream_session: SparkSession, numbers: str, tmp_path: Path
) -> None:
    save = f"SAVE STREAM numbers TO delta {NOW} PARTITIONED ON (even)"
    finish(start(save, numbers))
    forget_commits(tmp_path)
    finish(start(save, numbers))

    assert read_numbers(stream_session, f"delta.`{tmp_path}/default`") == list(range(10))


def test_the_iceberg_sink_creates_its_table_with_partitions(
    start: StartRun, stream_session: SparkSession, numbers: str, tmp_path: Path
) -> None:
    path = f"OPTIONS ('PATH' = '{ICEBERG_TABLE}')"
    save = f"SAVE STREAM numbers TO iceberg {NOW} PARTITIONED ON (even) {path}"
    finish(start(save, numbers))
    forget_commits(tmp_path)
    finish(start(save, numbers))

    assert read_numbers(stream_session, ICEBERG_TABLE) == list(range(10))
    partitions = read_rows(stream_session.table(f"{ICEBERG_TABLE}.partitions"))
    assert {row["partition"]["even"]: row["record_count"] for row in partitions} == {
        True: 5,
        False: 5,
    }


def test_the_iceberg_sink_refuses_a_table_of_another_catalog(
    start: StartRun, stream_session: SparkSession, numbers: str
) -> None:
    save = "SAVE STREAM numbers TO iceberg OPTIONS ('path' = 'default.stream_lake')"
    with pytest.raises(RunFailed, match="the catalog spark_catalog is not an Iceberg") as caught:
        start(save, numbers)

    assert caught.value.is_permanent
    assert not stream_session.catalog.tableExists("default.stream_lake")


def test_files_of_delta_are_a_source(
    start: StartRun, spark: SparkSession, stream_session: SparkSession, tmp_path: Path
) -> None:
    stream_session.range(7).withColumnRenamed("id", "n").write.format("delta").save(
        str(tmp_path / "lake")
    )
    lake = f"CREATE STREAM lake FROM delta OPTIONS ('path' = '{tmp_path}/lake')"

    assert read_memory(start, spark, "SAVE STREAM lake", lake) == list(range(7))


@pytest.mark.parametrize(("table", "format_"), DELTA_AS_MATRIX)
@pytest.mark.parametrize("written", ["SAVE STREAM of the table", "CREATE STREAM over the table"])
def test_a_table_with_a_log_is_read_as_a_stream(
    start: StartRun,
    spark: SparkSession,
    stream_session: SparkSession,
    table: str,
    format_: str,
    written: str,
) -> None:
    stream_session.sql(f"CREATE TABLE {table} (n INT) USING {format_}")
    stream_session.sql(f"INSERT INTO {table} VALUES (1), (2)")
    if written == "SAVE STREAM of the table":
        assert read_memory(start, spark, f"SAVE STREAM {table}") == [1, 2]
        return
    lake = f"CREATE STREAM lake AS SELECT * FROM STREAM {table} WHERE n > 1"
    assert read_memory(start, spark, "SAVE STREAM lake", lake) == [2]


@pytest.mark.parametrize("by", ["name", "location"])
def test_iceberg_is_a_source_that_continues_after_a_restart(
    start: StartRun, stream_session: SparkSession, tmp_path: Path, by: str
) -> None:
    stream_session.sql(f"CREATE TABLE {ICEBERG_TABLE} (n INT, even BOOLEAN) USING iceberg")
    stream_session.sql(f"INSERT INTO {ICEBERG_TABLE} VALUES (1, false), (2, true)")
    path = ICEBERG_TABLE if by == "name" else f"{tmp_path}/files/db/stream_lake"
    lake = f"CREATE STREAM lake FROM iceberg OPTIONS ('path' = '{path}')"
    save = f"SAVE STREAM lake TO TABLE files.db.copy {NOW} IDENTIFIED BY numbers"
    finish(start(save, lake))
    stream_session.sql(f"INSERT INTO {ICEBERG_TABLE} VALUES (3, false)")
    forget_commits(tmp_path)
    finish(start(save, lake))

    assert read_numbers(stream_session, "files.db.copy") == [1, 2, 3]
