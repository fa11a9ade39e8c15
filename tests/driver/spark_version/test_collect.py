"""Small results, whose rows the driver collects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.support.results import Writer

from headrace.driver.spark_version.session_state import override_for_statement
from headrace.results.manifest import read_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_few_rows_of_any_size_are_collected_in_order(spark: SparkSession, writer: Writer) -> None:
    text = "SELECT id, repeat('x', 200000) AS s FROM range(0, {}, 1, 3) ORDER BY id DESC"
    for count in (0, 1, 50):
        report, rows = writer.write(spark.sql(text.format(count)), inline_limit=10**8)
        values = [row for batch in rows.batches() for row in batch.to_pylist()]
        assert report.row_count == count
        assert [row["_0"] for row in values] == list(range(count))[::-1]
        assert {len(row["_1"]) for row in values} <= {200_000}


def test_a_small_query_that_fails_has_the_error_of_its_task(
    spark: SparkSession, writer: Writer
) -> None:
    frame = spark.sql("SELECT max(IF(id > 5, raise_error('six'), id)) FROM range(9)")
    with pytest.raises(PySparkException, match="six") as raised:
        writer.write(frame)
    assert raised.value.getCondition() == "USER_RAISED_EXCEPTION"


@pytest.mark.parametrize(
    "text", ["SELECT max({}) FROM range(1)", "SELECT {} FROM range(9) LIMIT 1"]
)
def test_jobs_of_small_queries_see_the_configuration_of_the_session(
    spark: SparkSession, writer: Writer, text: str
) -> None:
    # The day number in the week, which only the legacy formatter has as `u`. Tasks choose the
    # formatter, because the pattern is no literal.
    day_number = "date_format(DATE'2026-01-01', IF(id < 9, 'u', 'y'))"
    with override_for_statement(spark, {"spark.sql.legacy.timeParserPolicy": "LEGACY"}):
        _, rows = writer.write(spark.sql(text.format(day_number)))
    assert [row for batch in rows.batches() for row in batch.to_pylist()] == [{"_0": "4"}]


@pytest.mark.parametrize("inline_limit", [10**6, 10])
@pytest.mark.parametrize("limit", [0, 7, 10, 25, 100, 900])
def test_a_limit_takes_the_first_rows_of_the_first_partitions(
    spark: SparkSession, writer: Writer, limit: int, inline_limit: int
) -> None:
    text = "SELECT id, repeat('é', 9) AS s FROM range(0, 1000, 1, 10) WHERE id % 100 > 89"
    report, rows = writer.write(spark.sql(f"{text} LIMIT {limit}"), inline_limit=inline_limit)
    expected = [id_ for id_ in range(1000) if id_ % 100 > 89][:limit]
    assert [row["_0"] for batch in rows.batches() for row in batch.to_pylist()] == expected
    assert (report.row_count, report.truncated) == (len(expected), False)


def test_a_row_limit_below_the_limit_of_a_query_truncates_it(
    spark: SparkSession, writer: Writer
) -> None:
    text = "SELECT id, repeat('x', 9) AS s FROM range(0, 1000, 1, 10) LIMIT 200"
    report, rows = writer.write(spark.sql(text), row_limit=150)
    assert [row["_0"] for batch in rows.batches() for row in batch.to_pylist()] == list(range(150))
    assert report.truncated


@pytest.mark.parametrize(("limit", "rows_of_parts"), [(30, [20, 10]), (20, [20])])
def test_wide_rows_of_a_limit_are_written_in_small_batches(
    spark: SparkSession, writer: Writer, limit: int, rows_of_parts: list[int]
) -> None:
    text = f"SELECT id, repeat('x', 1000000) AS s FROM range(0, 40, 1, 2) LIMIT {limit}"
    _report, rows = writer.write(spark.sql(text), inline_limit=1000, chunk_limit=3_000_000)
    ids = [row["_0"] for batch in rows.batches() for row in batch.to_pylist()]
    assert ids == list(range(limit))
    parts = read_manifest(writer.location).parts
    assert [sum(part.rows) for part in parts] == rows_of_parts
    assert {count for part in parts for count in part.rows} <= {1, 2, 3}
