"""The number of rows that a statement has written, in every catalog."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_lakes

from headrace.driver.spark_version.metrics import ProgressReader, count_written_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.finding("B15")]
ROWS = "SELECT id, CAST(id AS STRING) AS s, id % 3 AS k FROM range(0, {}, 1, 2)"


def run_tagged(spark: SparkSession, text: str) -> tuple[DataFrame, str]:
    """Run a statement with a job tag, as a driver does, and return its frame and the tag."""
    tag = f"st_{secrets.token_hex(4)}"
    spark.sparkContext.addJobTag(tag)
    try:
        return spark.sql(text), tag
    finally:
        spark.sparkContext.removeJobTag(tag)


def count_tagged(frame: DataFrame, tag: str) -> int | None:
    """Return the number of rows that a statement with a job tag has written."""
    reader = ProgressReader(frame.sparkSession.sparkContext)
    # This waits for the listener bus.
    progress = reader.read_final(tag)
    return count_written_rows(frame, reader.find_jobs(tag), progress)


def count_rows(spark: SparkSession, text: str) -> int | None:
    """Run a statement, and return the number of rows that it has written."""
    return count_tagged(*run_tagged(spark, text))


@pytest.mark.catalogs
@for_lakes()
def test_writes_of_every_catalog_are_counted(namespace: LakeNamespace) -> None:
    assert count_rows(namespace.spark, namespace.ctas(ROWS.format(100))) == 100
    columns = "(id, s, k) " if namespace.lake.name == "delta" else ""
    insert = f"INSERT INTO {namespace.table} {columns}{ROWS.format(7)}"
    assert count_rows(namespace.spark, insert) == 7


@pytest.mark.usefixtures("database")
def test_rows_are_counted_although_other_statements_have_run_since(spark: SparkSession) -> None:
    frame, tag = run_tagged(spark, f"CREATE TABLE t USING json AS {ROWS.format(100)}")
    for _ in range(60):
        spark.range(1).write.format("noop").mode("append").save()
    progress = ProgressReader(spark.sparkContext).read_final(tag)
    assert progress is not None
    assert (progress.rows_written, progress.tasks_active) == (100, 0)
    assert count_tagged(frame, tag) == 100


@pytest.mark.usefixtures("database")
def test_files_are_counted_and_statements_that_write_no_rows_are_not(spark: SparkSession) -> None:
    assert count_rows(spark, f"CREATE TABLE t USING json AS {ROWS.format(100)}") == 100
    assert count_rows(spark, "INSERT INTO t SELECT * FROM t WHERE id > 90") == 9
    assert count_rows(spark, "INSERT OVERWRITE t SELECT 1L, 'a', 2L") == 1
    assert count_rows(spark, "INSERT INTO t SELECT * FROM t WHERE false") == 0
    assert count_rows(spark, "CREATE TABLE empty (a INT) USING json") is None
    assert count_rows(spark, "SELECT count(*) FROM t") is None
    assert count_rows(spark, "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS") is None
