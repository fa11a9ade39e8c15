"""Queries without FROM: the row is the one that Spark computes, if possible without a job."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.support.results import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def count_jobs(spark: SparkSession, writer: Writer, sql: str) -> tuple[int, list[Any]]:
    """Write the result of a query. Return the number of its Spark jobs, and its rows."""
    group = f"constant {sql}"
    spark.sparkContext.setJobGroup(group, sql)
    try:
        _report, rows = writer.write(spark.sql(sql))
        values = [list(row.values()) for batch in rows.batches() for row in batch.to_pylist()]
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    # The status tracker reads what a listener has recorded, which happens after the job.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(30_000)
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)), values


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", [1]),
        ("SELECT 'a' || 'b', NULL, 1.50BD, X'00ff'", ["ab", None, Decimal("1.50"), b"\x00\xff"]),
        ("SELECT current_database(), upper(current_catalog())", ["default", "SPARK_CATALOG"]),
        ("SELECT array(1, NULL), sort_array(array(3, 1))", [[1, None], [1, 3]]),
        ("SELECT transform(sequence(1, 3), x -> x * 2)", [[2, 4, 6]]),
        ("SELECT a + 1 FROM (SELECT 2 AS a)", [3]),
        ("SELECT DATE '2024-02-29' + 1, try_divide(1, 0)", [date(2024, 3, 1), None]),
    ],
)
def test_a_constant_row_needs_no_job(
    spark: SparkSession, writer: Writer, sql: str, expected: list[Any]
) -> None:
    assert count_jobs(spark, writer, sql) == (0, [expected])


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT (SELECT max(id) FROM range(5)), 7", [[4, 7]]),
        ("SELECT reflect('java.lang.Math', 'abs', -3)", [["3"]]),
        ("SELECT length(uuid()), rand() < 1", [[36, True]]),
        ("SELECT explode(array(1, 2))", [[1], [2]]),
        ("SELECT count(*)", [[1]]),
        ("SELECT plus_one(1)", [[2]]),
    ],
)
def test_a_row_that_may_take_long_to_compute_gets_a_job(
    spark: SparkSession, writer: Writer, sql: str, expected: list[Any]
) -> None:
    spark.udf.register("plus_one", lambda value: value + 1, "int")
    jobs, rows = count_jobs(spark, writer, sql)
    assert rows == expected
    assert jobs > 0


@pytest.mark.parametrize("sql", ["SELECT raise_error('no')", "SELECT 1 / 0, 2"])
def test_an_error_of_a_constant_row_is_the_error_of_spark(
    spark: SparkSession, writer: Writer, sql: str
) -> None:
    with pytest.raises(PySparkException) as expected:
        spark.sql(sql).collect()
    with pytest.raises(PySparkException) as actual:
        writer.write(spark.sql(sql))
    assert actual.value.getCondition() == expected.value.getCondition()
    assert actual.value.getSqlState() == expected.value.getSqlState()
