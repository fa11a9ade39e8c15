"""What happened to a streaming query in the last hours: its minutes, and when it did not run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.model.deployment import VersionDecision
from headrace.model.event import Event
from headrace.model.lifecycle import StreamState
from headrace.model.reasons import explain_stream
from headrace.model.stream_history import (
    HISTORY_MINUTES,
    HistoryMark,
    Interruption,
    InterruptionKind,
    MarkKind,
    QueryMinute,
    join_minutes,
    minute_of,
    minute_start,
)
from headrace.model.stream_query import ADHOC_SCOPE, QueryAttempt, StreamQuery
from headrace.model.text import cut_text
from headrace.store import events
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.streams import stream_minutes, stream_queries

_ATTEMPTS = 50
"""Attempts of a history: the newest."""
_EVENTS = 1000
"""Changes of state that a history reads: the newest."""
_VERSIONS = 50
_SHOWN = 200
"""Interruptions and marks of a history: the newest."""
_CAUSE_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAttempt:
    """An attempt of a query, in its history."""

    query: QueryAttempt
    cause: str | None
    """Why it does not run; None while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHistory:
    """The last hours of a query, of all its attempts together."""

    query: StreamQuery
    began_at: datetime
    """Begin of the first minute, whether something was reported then or not."""
    now: datetime
    """Time of the store."""
    minutes: Sequence[QueryMinute]
    """Minutes in which a batch was reported, oldest first. Empty if they were not read."""
    interruptions: Sequence[Interruption]
    """Times in which the query did not run, oldest first."""
    attempts: Sequence[StreamAttempt]
    """The newest attempts, newest first, also those that ended before."""
    marks: Sequence[HistoryMark]
    """Begins of attempts, runs and versions, oldest first. Empty if they were not read."""


def read_stream_history(
    tx: Tx, query: StreamQuery, minutes: int = HISTORY_MINUTES, *, has_numbers: bool = True
) -> StreamHistory:
    """Return the last minutes of a query and of the other attempts with its name.

    Args:
        has_numbers: Whether to read the minutes and the marks; both are empty otherwise.
    """
    now = read_clock(tx.connection)
    began_at = minute_start(minute_of(now) - minutes + 1)
    attempts = stream_queries.list_attempts(tx, query, _ATTEMPTS)
    recent = [
        attempt.id
        for attempt in attempts
        if attempt.ended_at is None or attempt.ended_at >= began_at
    ]
    # The attempt before them says why the query did not run at the begin.
    ids = [attempt.id for attempt in attempts[: len(recent) + 1]]
    changes = events.read_newest(tx, ids, limit=_EVENTS)[::-1]
    rows, marks = [], []
    if has_numbers:
        rows = stream_minutes.read(tx, recent, minutes)
        versions = _list_versions(tx, query, began_at)
        marks = [*_mark_changes(changes, attempts), *map(_mark_version, versions)]
    return StreamHistory(
        query=query,
        began_at=began_at,
        now=now,
        minutes=join_minutes(minute for _id, minute in rows),
        interruptions=list(find_interruptions(changes, began_at))[-_SHOWN:],
        attempts=[
            StreamAttempt(query=attempt, cause=_describe_cause(attempt)) for attempt in attempts
        ],
        marks=sorted((mark for mark in marks if mark.at >= began_at), key=lambda mark: mark.at)[
            -_SHOWN:
        ],
    )


def find_interruptions(changes: Sequence[Event], began_at: datetime) -> Iterator[Interruption]:
    """Yield the times after `began_at` in which a query did not run, oldest first.

    Args:
        changes: Changes of the states of all attempts, oldest first. The query is taken to run
            before the first of them.
    """
    current: Interruption | None = None
    for change in changes:
        following = _interrupt(change, current)
        continues = current and following and following.began_at == current.began_at
        if current is not None and not continues and change.at > began_at:
            yield _cut(current, began_at, change.at)
        current = following
    if current is not None:
        yield _cut(current, began_at, None)


_KINDS = {
    StreamState.STARTING: InterruptionKind.STARTING,
    StreamState.BACKING_OFF: InterruptionKind.BACKING_OFF,
    StreamState.PAUSED: InterruptionKind.PAUSED,
    StreamState.FAILED: InterruptionKind.FAILED,
    StreamState.STOPPED: InterruptionKind.STOPPED,
}
_RETRIED = {InterruptionKind.DRIVER_DOWN, InterruptionKind.BACKING_OFF}
"""Interruptions that last until the query runs, whatever is tried in between."""


def _interrupt(change: Event, current: Interruption | None) -> Interruption | None:
    """Return the interruption after a change of state; None if the query runs."""
    if change.target == StreamState.RUNNING:
        return None
    kind = next((kind for state, kind in _KINDS.items() if state == change.target), None)
    if kind is None:
        return current  # a query that is `stopping` runs until it has stopped
    if change.source == StreamState.RUNNING and kind is InterruptionKind.STARTING:
        kind = InterruptionKind.DRIVER_DOWN
    is_retry = kind is InterruptionKind.STARTING and change.source is not None
    if current is not None and is_retry and current.kind in _RETRIED:
        return current
    is_same = current is not None and kind is current.kind
    began_at = current.began_at if current is not None and is_same else change.at
    return Interruption(kind=kind, began_at=began_at, ended_at=None, cause=_find_cause(change))


def _cut(interruption: Interruption, began_at: datetime, ended_at: datetime | None) -> Interruption:
    """Return an interruption with its end, and with the part that a history shows."""
    return Interruption(
        kind=interruption.kind,
        began_at=max(interruption.began_at, began_at),
        ended_at=ended_at,
        cause=interruption.cause,
    )


def _describe_cause(attempt: QueryAttempt) -> str | None:
    reason = explain_stream(attempt)
    return None if reason is None else reason.text


def _find_cause(change: Event) -> str | None:
    """Return why a query does not run, as far as the event says so."""
    failure, reason = change.detail.get("failure"), change.detail.get("reason")
    if isinstance(failure, dict):
        return cut_text(str(failure.get("message", "")), _CAUSE_CHARACTERS)
    return cut_text(str(reason), _CAUSE_CHARACTERS) if reason else None


def _mark_changes(
    changes: Iterable[Event], attempts: Iterable[QueryAttempt]
) -> Iterator[HistoryMark]:
    """Yield a mark for the begin of each attempt after the first, and of each later run."""
    numbers = {attempt.id: attempt.attempt for attempt in attempts}
    runs: dict[str, int] = {}
    for change in changes:
        attempt = change.entity_id
        if change.source is None:
            yield HistoryMark(
                kind=MarkKind.ATTEMPT, at=change.at, text=f"attempt {numbers[attempt]}"
            )
        elif change.target == StreamState.RUNNING:
            runs[attempt] = runs.get(attempt, 0) + 1
            if runs[attempt] > 1:
                yield HistoryMark(kind=MarkKind.RUN, at=change.at, text="restart")


def _mark_version(version: VersionDecision) -> HistoryMark:
    text = f"version {version.version}.{version.revision}: {version.decision}"
    return HistoryMark(kind=MarkKind.VERSION, at=version.created_at, text=text)


def _list_versions(tx: Tx, query: StreamQuery, began_at: datetime) -> list[VersionDecision]:
    """Return the versions of the query's job that are not older than `began_at`."""
    job = None if query.scope == ADHOC_SCOPE else jobs.find(tx, query.owner, query.scope)
    return [] if job is None else jobs.list_decisions(tx, job.id, began_at, _VERSIONS)
