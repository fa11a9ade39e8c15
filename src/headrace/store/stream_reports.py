"""What the report of a driver about a query means: states on the way, columns, detail."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from headrace.model.lifecycle import STREAM, StreamState
from headrace.model.stream_query import CLAIMED_REASONS, EndReason, QueryReport, StreamQuery
from headrace.store.clock import clock

_STARTED = {StreamState.STARTING, StreamState.RUNNING, StreamState.BACKING_OFF}
"""States in which a driver works on the query, or will."""
_REPORTED = _STARTED | {StreamState.STOPPED, StreamState.FAILED}
"""States that a driver can report."""
_ANSWERED = _STARTED | {StreamState.STOPPING}
"""States in which the store waits for reports of a driver."""


def is_new(query: StreamQuery, report: QueryReport, epoch: int) -> bool:
    """Return whether a report is newer than the last one that was applied.

    A repeated report is not, nor one that a network or a frozen node has delayed.

    Args:
        epoch: Epoch of the driver that reports.
    """
    if report.sequence is None or query.report_epoch != epoch:
        return True
    return report.sequence > (query.report_sequence or 0)


def answers(query: StreamQuery, report: QueryReport) -> bool:
    """Return whether a report answers the present request of the store.

    A driver that is to run a query ends it only with a reason. A driver that exits also stops its
    queries, but then the end of the session decides what becomes of them.
    """
    if report.generation != query.generation or report.state not in _REPORTED:
        return False
    # The answer for a paused query was its stop. No driver works on the query until it is resumed.
    if query.state not in _ANSWERED:
        return False
    if report.state is not StreamState.STOPPED or query.state is StreamState.STOPPING:
        return True
    return report.reason is not None or report.sequence is None


def find_path(query: StreamQuery, report: QueryReport) -> list[StreamState] | None:
    """Return the states on the way to the reported one; None if there is no way.

    A driver reports its current state, and may have passed through others since its last report.
    """
    source, target = query.state, report.state
    if source is target and not _has_restarted(query, report):
        return []
    for way in _WAYS:
        steps = [source, *way, target]
        if all(STREAM.allows(*pair) for pair in pairwise(steps)):
            return steps[1:]
    return None


def _has_restarted(query: StreamQuery, report: QueryReport) -> bool:
    """Return whether a query in the same state as before has failed or run in the meantime."""
    if report.state is StreamState.BACKING_OFF:
        return report.failures != query.failures
    return report.state is StreamState.RUNNING and report.run_id != query.run_id


_WAYS: tuple[tuple[StreamState, ...], ...] = (
    (),
    (StreamState.STARTING,),
    (StreamState.RUNNING,),
    (StreamState.STARTING, StreamState.RUNNING),
)
"""States that a query can pass through between two reports."""


def columns_of(report: QueryReport) -> dict[str, Any]:
    """Return the columns that a report sets."""
    retry_at = None
    if report.state is StreamState.BACKING_OFF and report.retry_seconds is not None:
        retry_at = clock(report.retry_seconds)
    facts = {
        "failures": report.failures,
        "retry_at": retry_at,
        "run_id": report.run_id,
        "last_error": report.error,
    }
    # A driver that has not run the query yet does not know its last batch.
    return facts if report.last_batch is None else {**facts, "last_batch": report.last_batch}


def reason_of(report: QueryReport) -> EndReason:
    """Return why a query has ended that was to run, as far as a driver can know."""
    return report.reason if report.reason in CLAIMED_REASONS else EndReason.NOT_REPORTED


def detail_of(report: QueryReport) -> dict[str, Any] | None:
    """Return the detail of the event of a reported change."""
    if report.state is StreamState.RUNNING:
        return {"run": report.run_id}
    if report.state is StreamState.BACKING_OFF:
        return {"failures": report.failures, "delay_seconds": report.delay_seconds}
    return None
