"""Sums of the counts of batches: each batch counts once, and what is not known is counted too."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.stream_expectations import make_batch

from headrace.model.expectation import Expectation
from headrace.model.stream_expectation import (
    CALM_SECONDS,
    AddedBatches,
    StreamCounts,
    add_batches,
)
from headrace.model.stream_query import QueryProgress
from headrace.model.text import MAX_BIGINT

POSITIVE = Expectation(name="positive", condition="n > 0")


def add(
    before: StreamCounts | None, batches: Sequence[QueryProgress], now: float = 0.0
) -> AddedBatches:
    found = add_batches(before, [POSITIVE], batches, now=now)
    assert found is not None
    return found


def summarize(counts: StreamCounts) -> tuple[int, int, int, int]:
    """Return the last batch, the number of known and unknown batches, and the sum of the rows."""
    return counts.last_batch, counts.batches, counts.unknown_batches, counts.total.rows_in


def test_a_batch_that_is_reported_again_counts_once() -> None:
    first = add(None, [make_batch(4, 10, 3), make_batch(5, 20, 1)])
    assert summarize(first.counts) == (5, 2, 0, 30)
    assert [each.rows_in for each in first.added] == [10, 20]
    # With other counts, and in another order: a batch that ran again after a lost driver.
    again = add(first.counts, [make_batch(6, 1), make_batch(5, 99), make_batch(6, 7)])
    assert summarize(again.counts) == (6, 3, 0, 31)
    assert again.counts.total.expectations[0].violations == 4
    assert again.counts.last is not None
    assert again.counts.last.rows_in == 1
    assert add_batches(again.counts, [POSITIVE], [make_batch(6), make_batch(0)], now=0.0) is None


def test_batches_without_counts_and_batches_that_no_report_names_are_not_known() -> None:
    counts = add(None, [make_batch(0), make_batch(1, None)]).counts
    assert summarize(counts) == (1, 1, 1, 10)
    assert counts.last is None
    # The counts of the batches 2 and 3 were lost with their driver.
    assert summarize(add(counts, [make_batch(4)]).counts) == (4, 2, 3, 20)


def test_counts_that_a_driver_makes_up_are_not_known() -> None:
    counts = add(None, [make_batch(0, 10, name="other")]).counts
    assert summarize(counts) == (0, 0, 1, 0)
    large = add(counts, [make_batch(1, MAX_BIGINT), make_batch(2, 1)]).counts
    assert summarize(large) == (2, 1, 2, MAX_BIGINT)
    assert add(large, [make_batch(MAX_BIGINT)]).counts.unknown_batches == MAX_BIGINT


def test_a_violation_is_news_after_a_time_without_violations() -> None:
    first = add(None, [make_batch(0, 10, 1), make_batch(1, 10, 1)])
    assert [(each.batch, each.names) for each in first.violations] == [(0, ["positive"])]
    good = add(first.counts, [make_batch(2)], now=100.0)
    assert not good.violations
    soon = add(good.counts, [make_batch(3, 10, 1)], now=CALM_SECONDS)
    assert not soon.violations
    still = add(soon.counts, [make_batch(4, 10, 1)], now=1.5 * CALM_SECONDS)
    assert not still.violations
    later = add(still.counts, [make_batch(5, 10, 1)], now=2.6 * CALM_SECONDS)
    assert [each.batch for each in later.violations] == [5]
