"""Expectations on the rows of the stream `numbers`, and what a run has counted for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.model.expectation import Expectation, ExpectationCounts, OnViolation, Violations
from headrace.model.job import JobRows
from headrace.model.stream_query import QueryProgress

if TYPE_CHECKING:
    from headrace.driver.streams.supervised_query import Run

_NUMBERS = "SELECT n, even FROM numbers"


def expect(
    condition: str, on_violation: OnViolation = OnViolation.WARN, name: str = "e"
) -> Expectation:
    return Expectation(name=name, condition=condition, on_violation=on_violation)


CHECKS = [
    expect("n > 2", OnViolation.DROP, "large"),
    expect("nullif(n, 5) < 9", OnViolation.WARN, "small"),
]
FAILING = [expect("n IS NOT NULL", OnViolation.FAIL, "numbered")]


def job_rows(expectations: Sequence[Expectation], sql: str = _NUMBERS) -> JobRows:
    """Return the rows of a job whose query reads the stream `numbers`."""
    return JobRows(sql=sql, expectations=list(expectations))


def make_batch(
    number: int, rows: int | None = 10, violations: int = 0, *, name: str = "positive"
) -> QueryProgress:
    """Return a batch; without rows, its counts are not known."""
    counts = None
    if rows is not None:
        counts = ExpectationCounts(
            rows_in=rows,
            rows_dropped=0,
            rows_written=rows,
            expectations=[Violations(name=name, violations=violations, nulls=0)],
        )
    return QueryProgress(
        batch=number,
        at="2026-01-01T00:00:00.000Z",
        input_rows=10,
        input_rate=1.0,
        process_rate=1.0,
        milliseconds=1,
        expectation_counts=counts,
    )


Summary = tuple[int, int, int | None, list[tuple[int, int]]]


def summarize(run: Run) -> dict[int, Summary | None]:
    """Return what each batch of a run has counted: rows in, dropped, written, and violations."""
    found: dict[int, Summary | None] = {}
    for batch in run.read_new_batches(None):
        counts = batch.expectation_counts
        found[batch.batch] = counts and (
            counts.rows_in,
            counts.rows_dropped,
            counts.rows_written,
            [(each.violations, each.nulls) for each in counts.expectations],
        )
    return found
