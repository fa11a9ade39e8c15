"""Results of Spark that the driver holds, and those that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.results import Writer, read_rows

from headrace.driver.output import write_result
from headrace.driver.output.held_results import HeldResults
from headrace.model.ids import new_id
from headrace.model.result import Disposition, ResultHolder, ResultInfo, ResultReport
from headrace.results.held_rows import HeldRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SECRET = "secret of the driver"
_LIMIT = 4 * 1024 * 1024


@pytest.fixture
def held() -> Iterator[HeldResults]:
    results = HeldResults(host="127.0.0.1", secret=_SECRET, limit=_LIMIT)
    yield results
    assert results.close(5.0)


def write(
    writer: Writer, frame: DataFrame, held: HeldResults | None, **changes: Any
) -> tuple[ResultReport, str]:
    """Write a result with the disposition `memory`. Return its report and its statement."""
    statement_id = new_id("st")
    options = writer.make_options(
        disposition=Disposition.MEMORY, statement_id=statement_id, held=held, **changes
    )
    return write_result(frame, options), statement_id


def read_held(report: ResultReport, statement_id: str) -> list[Any]:
    info = ResultInfo(
        **report.model_dump(exclude={"data", "port"}),
        location=None,
        expires_at=datetime.now(UTC),
        holder=ResultHolder(session_id="se_1", epoch=1, endpoint=f"127.0.0.1:{report.port}"),
    )
    rows = HeldRows(info, statement_id, _SECRET)
    assert rows.chunks == report.chunks
    return [value for batch in rows.batches() for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT 7 AS n", [7]),
        ("SELECT explode(sequence(0, 99)) AS n", list(range(100))),
        ("SELECT id FROM range(0, 200000, 1, 5)", list(range(200_000))),
    ],
    ids=["constant", "executors", "several tasks"],
)
def test_a_result_is_held_in_order(
    spark: SparkSession, writer: Writer, held: HeldResults, sql: str, values: list[int]
) -> None:
    report, statement_id = write(writer, spark.sql(sql), held, chunk_limit=64 * 1024)
    assert report.disposition is Disposition.MEMORY
    assert read_held(report, statement_id) == values
    assert writer.list_files() == []


def test_an_empty_result_needs_no_holder(
    spark: SparkSession, writer: Writer, held: HeldResults
) -> None:
    report, _statement_id = write(writer, spark.sql("SELECT 1 AS n WHERE false"), held)
    assert report.disposition is Disposition.INLINE


def test_a_cut_result_keeps_no_memory_for_other_rows(
    spark: SparkSession, writer: Writer, held: HeldResults
) -> None:
    report, statement_id = write(writer, spark.range(100_000).coalesce(1), held, row_limit=10)
    assert report.truncated
    assert read_held(report, statement_id) == list(range(10))
    assert held.free_bytes > _LIMIT - 1024


def test_small_outputs_of_many_tasks_share_chunks(
    spark: SparkSession, writer: Writer, held: HeldResults
) -> None:
    report, statement_id = write(writer, spark.range(0, 200, 1, 50), held, chunk_limit=64 * 1024)
    assert report.chunks == 1
    result = held.find(statement_id)
    assert result is not None
    assert [chunk.num_rows for chunk in result.chunks] == [200]
    assert read_held(report, statement_id) == list(range(200))


def test_a_result_that_does_not_fit_is_stored(
    spark: SparkSession, writer: Writer, held: HeldResults
) -> None:
    large = spark.range(_LIMIT // 8 + 1)
    for holder in (held, None):
        report, _statement_id = write(writer, large, holder)
        assert report.disposition is Disposition.STORED
        rows = read_rows(report, writer.location)
        assert sum(batch.num_rows for batch in rows.batches()) == _LIMIT // 8 + 1
    assert held.free_bytes == _LIMIT


def test_results_together_stay_below_the_limit(
    spark: SparkSession, writer: Writer, held: HeldResults
) -> None:
    half = spark.range(_LIMIT // 8 // 2 + 1)
    dispositions = [write(writer, half, held)[0].disposition for _number in range(2)]
    assert dispositions == [Disposition.MEMORY, Disposition.STORED]


def test_the_byte_limit_of_the_statement_applies(
    spark: SparkSession, writer: Writer, held: HeldResults
) -> None:
    report, _statement_id = write(writer, spark.range(1000), held, byte_limit=800)
    assert report.truncated
    assert report.row_count <= 100
