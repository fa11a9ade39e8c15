"""A refusal of Headrace stands for one of Spark's: it has the condition and SQLSTATE of Spark."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.driver.ctas.lake_namespace import LakeNamespace, for_implementations, for_lakes
from tests.support.ctas import CtasRun, database_directory, fetch_rows
from tests.support.journal import JournalLink

from headrace.driver.failures import describe_failure
from headrace.model.failure import Failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REFUSED = {
    "a name with a dash": "CREATE TABLE `a-b` USING parquet AS SELECT 1 AS x",
    "a name with a space": "CREATE TABLE IF NOT EXISTS `a b` USING json AS SELECT 1 AS x",
    "a name with an accent": "CREATE TABLE `ä` STORED AS PARQUET AS SELECT 1 AS x",
    "a name with a dot": "CREATE TABLE {database}.`a.b` AS SELECT 1 AS x",
    "a name with a slash": "CREATE TABLE `a/b` USING orc AS SELECT 1 AS x",
    "a missing database": "CREATE TABLE nowhere.t USING parquet AS SELECT 1 AS x",
    "a bad name in a missing database": "CREATE TABLE nowhere.`a-b` AS SELECT 1 AS x",
    "a bad name of a database": "CREATE TABLE `no-where`.t AS SELECT 1 AS x",
    "too many names": "CREATE TABLE a.b.c USING parquet AS SELECT 1 AS x",
    "a table of that name": "CREATE TABLE taken USING parquet AS SELECT 1 AS x",
    "a view of that name": "CREATE TABLE a_view USING parquet AS SELECT 1 AS x",
    "files at the LOCATION": "CREATE TABLE n USING parquet LOCATION '{full}' AS SELECT 1 AS x",
    "files at the default location": "CREATE TABLE full USING parquet AS SELECT 1 AS x",
    "a missing column": "CREATE TABLE n USING parquet AS\n  SELECT nope",
    "a missing table": "CREATE TABLE n USING parquet AS SELECT * FROM nowhere_at_all",
    "an unknown format": "CREATE TABLE n USING nosuch AS SELECT 1 AS x",
    "two columns of a name": "CREATE TABLE n USING parquet AS SELECT 1 AS x, 2 AS x",
    "a missing partition column": (
        "CREATE TABLE n USING parquet PARTITIONED BY (p) AS SELECT 1 AS x"
    ),
    "a syntax error": "CREATE TABLE n USING parquet AS SELEC 1",
}


def identify(failure: Failure) -> tuple[object, ...]:
    """Return what a program can rely on in an error of Spark."""
    return failure.condition, failure.sqlstate, failure.line, failure.column


def find_refusal(run: Callable[[], object], text: str) -> tuple[object, ...]:
    """Return what identifies the error with which a text is refused."""
    try:
        run()
    except Exception as error:  # noqa: BLE001 - an error of Headrace or of Spark
        return identify(describe_failure(error, text))
    raise AssertionError(f"not refused: {text}")


def find_both_refusals(
    spark: SparkSession, text: str
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return the refusal of a text by Headrace, and that of plain Spark."""
    link = JournalLink()
    ours = find_refusal(lambda: CtasRun(spark, text, link), text)
    assert link.steps == []
    return ours, find_refusal(lambda: spark.sql(text), text)


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_ctas_has_condition_sqlstate_and_position_of_spark(
    spark: SparkSession, database: str, tmp_path: Path, case: str
) -> None:
    (tmp_path / "theirs").write_text("x")
    full = database_directory(spark) / "full"
    if case == "files at the default location":
        full.mkdir(parents=True)
        (full / "theirs").write_text("x")
    spark.sql("CREATE TABLE taken USING json AS SELECT 1 AS x")
    spark.sql("CREATE VIEW a_view AS SELECT 1 AS x")
    ours, theirs = find_both_refusals(spark, REFUSED[case].format(full=tmp_path, database=database))
    shutil.rmtree(full, ignore_errors=True)

    assert ours == theirs


@pytest.mark.catalogs
@for_implementations()
def test_a_refusal_of_an_existing_table_is_that_of_the_catalog(namespace: LakeNamespace) -> None:
    text = namespace.ctas("SELECT 1 AS k, 2 AS x")
    namespace.spark.sql(text)
    ours, theirs = find_both_refusals(namespace.spark, text)

    assert ours == theirs


@pytest.mark.catalogs
@for_lakes("parquet", "delta", "jdbc")
def test_a_refusal_of_a_missing_namespace_is_that_of_the_catalog(namespace: LakeNamespace) -> None:
    name = f"{namespace.lake.catalog}.nowhere.t"
    text = namespace.ctas("SELECT 1 AS k, 2 AS x", name=name)
    ours, theirs = find_both_refusals(namespace.spark, text)

    assert ours == theirs


@pytest.mark.catalogs
@for_lakes("iceberg-base")
def test_a_namespace_that_the_catalog_does_not_need_is_no_reason_to_refuse(
    namespace: LakeNamespace,
) -> None:
    name = f"{namespace.lake.catalog}.n_{secrets.token_hex(4)}.t"
    CtasRun(namespace.spark, namespace.ctas("SELECT 1 AS k", name=name), JournalLink())

    assert fetch_rows(namespace.spark, f"SELECT * FROM {name}") == [(1,)]
    namespace.spark.sql(f"DROP TABLE {name}")


@pytest.mark.catalogs
@for_lakes("delta", "iceberg-base", "jdbc")
def test_a_refusal_to_replace_a_missing_table_is_that_of_the_catalog(
    namespace: LakeNamespace,
) -> None:
    """Spark's own catalog supports no replacement, and Headrace does."""
    text = namespace.ctas("SELECT 1 AS k, 2 AS x", "REPLACE TABLE")
    ours, theirs = find_both_refusals(namespace.spark, text)

    assert ours == theirs
