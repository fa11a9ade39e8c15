"""What the batches of a streaming query have counted for its expectations, in a fixed size.

A batch is counted once, by its number: a driver reports a batch again if the answer of a node was
lost, and a batch that runs again after a lost driver has the same number. A batch without counts is
counted as unknown. So are the batches before it that no report has named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from headrace.model.expectation import CheckedRows, Expectation, ExpectationCounts, Violations
from headrace.model.stream_query import QueryProgress, StreamQuery
from headrace.model.text import MAX_BIGINT, Count

_NONE = -1
CALM_SECONDS = 600.0
"""Seconds without a violation of an expectation after which the next one is reported."""


class StreamCounts(BaseModel):
    """The counts of the batches of a streaming query, up to its last batch."""

    model_config = ConfigDict(frozen=True)

    last_batch: int = _NONE
    """Number of the last batch."""
    batches: Count = 0
    """Number of the batches whose counts are known."""
    unknown_batches: Count = 0
    """Number of the batches whose counts are not known."""
    total: ExpectationCounts
    """Sums of the counts of all batches that are known."""
    last: ExpectationCounts | None = None
    """Counts of the last batch; None: they are not known."""
    violated_at: dict[str, float] = {}
    """Time of the last violation of each expectation, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamChecks:
    """The expectations of a streaming query, and what its batches have counted."""

    query: StreamQuery
    expectations: list[Expectation]
    counts: StreamCounts | None
    """None: no batch is known yet."""

    @property
    def total(self) -> CheckedRows:
        """What all batches have counted."""
        total = None if self.counts is None or not self.counts.batches else self.counts.total
        return CheckedRows(expectations=self.expectations, counts=total)

    @property
    def last(self) -> CheckedRows:
        """What the last batch has counted."""
        last = None if self.counts is None else self.counts.last
        return CheckedRows(expectations=self.expectations, counts=last)


@dataclass(frozen=True, slots=True)
class BatchViolation:
    """Expectations that a batch has violated, after a time without violations."""

    batch: int
    counts: ExpectationCounts
    names: list[str]


@dataclass(frozen=True, slots=True)
class AddedBatches:
    """Counts with the batches of a report, and what is new in them."""

    counts: StreamCounts
    added: list[ExpectationCounts]
    """Counts of each new batch that are known."""
    violations: list[BatchViolation]


def list_expectations(query: StreamQuery) -> list[Expectation]:
    """Return the expectations of a streaming query."""
    return query.spec.expectations


def add_batches(
    counts: StreamCounts | None,
    expectations: Sequence[Expectation],
    batches: Iterable[QueryProgress],
    *,
    now: float,
) -> AddedBatches | None:
    """Return counts with the batches after the last one; None if there is no such batch.

    The reports come from a driver and may be wrong. Counts of other expectations, and sums above
    the largest BIGINT, are therefore not known.

    Args:
        counts: Counts before; None: no batch was counted.
        now: Time of the report, in seconds.
    """
    names = [each.name for each in expectations]
    counts = counts or StreamCounts(total=_make_zero(names))
    added, violations = list[ExpectationCounts](), list[BatchViolation]()
    new = [each for each in batches if each.batch > counts.last_batch]
    for batch in sorted(new, key=lambda each: each.batch):
        if batch.batch == counts.last_batch:
            continue
        counted = _select_counts(counts, batch, names)
        counts = _add(counts, batch.batch, counted)
        if counted is None:
            continue
        added.append(counted)
        violated = [each.name for each in counted.expectations if each.violations]
        times = counts.violated_at
        newly_violated = [
            name for name in violated if now - times.get(name, -math.inf) > CALM_SECONDS
        ]
        if newly_violated:
            violations.append(BatchViolation(batch.batch, counted, newly_violated))
        if violated:
            update = {"violated_at": {**times, **dict.fromkeys(violated, now)}}
            counts = counts.model_copy(update=update)
    return AddedBatches(counts, added, violations) if new else None


def _make_zero(names: Iterable[str]) -> ExpectationCounts:
    return ExpectationCounts(
        rows_in=0,
        rows_dropped=0,
        rows_written=0,
        expectations=[Violations(name=name, violations=0, nulls=0) for name in names],
    )


def _select_counts(
    counts: StreamCounts, batch: QueryProgress, names: list[str]
) -> ExpectationCounts | None:
    """Return the counts of a batch if they can be added to the sums, or None."""
    reported = batch.expectation_counts
    if reported is None or reported.rows_written is None:
        return None
    if [each.name for each in reported.expectations] != names:
        return None
    return reported if counts.total.rows_in + reported.rows_in <= MAX_BIGINT else None


def _add(counts: StreamCounts, number: int, counted: ExpectationCounts | None) -> StreamCounts:
    missing = 0 if counts.last_batch == _NONE else number - counts.last_batch - 1
    unknown = counts.unknown_batches + missing + (counted is None)
    return StreamCounts(
        last_batch=number,
        batches=counts.batches + (counted is not None),
        unknown_batches=min(unknown, MAX_BIGINT),
        total=counts.total if counted is None else _sum(counts.total, counted),
        last=counted,
        violated_at=counts.violated_at,
    )


def _sum(first: ExpectationCounts, second: ExpectationCounts) -> ExpectationCounts:
    return ExpectationCounts(
        rows_in=first.rows_in + second.rows_in,
        rows_dropped=first.rows_dropped + second.rows_dropped,
        rows_written=(first.rows_written or 0) + (second.rows_written or 0),
        expectations=[
            Violations(
                name=one.name,
                violations=one.violations + other.violations,
                nulls=one.nulls + other.nulls,
            )
            for one, other in zip(first.expectations, second.expectations, strict=True)
        ],
    )
