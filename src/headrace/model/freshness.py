"""How far a job with `max-lag` is behind the changes of its tables, and when it runs next.

The lag is the age of the oldest change that no successful run has read; without such a change, it
is 0. The clock of the store counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.model.lifecycle import RunState
from headrace.model.run import JobRun, RunTrigger, TableChange
from headrace.model.schedule import LONGEST_BURST, SETTLE

_MARGIN = 0.25
"""Part of the expected duration by which a run starts earlier."""
_SHORTEST_MARGIN = timedelta(seconds=5)
_DURATIONS = 10
"""Last successful runs whose durations count."""
_FROM_START = frozenset({RunTrigger.CONDITION, RunTrigger.USER})
"""Triggers of runs that begin with their first statement, and read what has changed before."""
_UNSUCCESSFUL = frozenset({RunState.FAILED, RunState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The lag of a job, and its limit."""

    max_lag: timedelta
    lag: timedelta
    expected: timedelta | None
    """Expected duration of a run; None: no first attempt of the version has succeeded."""
    unwatched: list[str] = field(default_factory=list)
    """Tables and files that the last successful run has read, and whose changes do not count."""

    @property
    def is_exceeded(self) -> bool:
        """Whether the lag is longer than it may be."""
        return self.lag > self.max_lag

    @property
    def reachable_lag(self) -> timedelta | None:
        """The lag that changes can reach: those during a run are read by the run after it."""
        return None if self.expected is None else 2 * self.expected

    @property
    def is_unattainable(self) -> bool:
        """Whether runs take too long to keep the limit while tables change all the time."""
        return self.reachable_lag is not None and self.reachable_lag > self.max_lag


def choose_start(
    unread: Sequence[TableChange], max_lag: timedelta, expected: timedelta | None
) -> datetime:
    """Return when a run starts that reads these changes.

    It starts as late as possible, so that it reads many changes, and early enough to end when the
    oldest change has the age `max_lag`. If its duration is not known, it starts when the tables
    have settled.

    Args:
        unread: At least one change, the oldest first.
        expected: Expected duration of the run; None: not known.
    """
    oldest = unread[0].changed_at
    if expected is None:
        return min(unread[-1].changed_at + SETTLE, oldest + LONGEST_BURST * SETTLE)
    return oldest + max_lag - expected - max(expected * _MARGIN, _SHORTEST_MARGIN)


def select_kept(unread: Iterable[TableChange], begins: Iterable[datetime]) -> list[TableChange]:
    """Return the changes that are needed to tell the lag, and what a run has to read.

    These are the last one of each table, the oldest of all, and the oldest after the creation of
    each run: after its success, that change is the oldest which is not read.

    Args:
        unread: The changes, the oldest first.
        begins: Times of the creation of live runs.
    """
    ordered = list(unread)
    last = {each.source_key: each for each in ordered}
    first = [next((each for each in ordered if each.changed_at > begin), None) for begin in begins]
    needed = {*last.values(), *first, *ordered[:1]}
    return [each for each in ordered if each in needed]


def find_read_until(recent: Iterable[JobRun]) -> datetime | None:
    """Return the time up to which successful runs have read all changes; None: there is none.

    A run reads what has changed before it was created. Changes afterwards may come too late for
    its first statement. A repair may begin with a later statement, so that it does not count.
    """
    created = [
        run.created_at
        for run in recent
        if run.state is RunState.SUCCEEDED and run.trigger in _FROM_START
    ]
    return max(created, default=None)


def estimate_duration(recent: Iterable[JobRun], version_id: str) -> timedelta | None:
    """Return the longest duration of the last successful runs of a version; None: there are none.

    The wait for a driver counts. A run that needed further attempts says little, and so does one
    that a user has started beside others.

    Args:
        recent: Runs of one job, the newest first.
    """
    durations = [
        run.ended_at - run.created_at
        for run in recent
        if run.version_id == version_id
        and run.state is RunState.SUCCEEDED
        and run.trigger is RunTrigger.CONDITION
        and run.attempt == 1
        and run.ended_at is not None
    ]
    return max(durations[:_DURATIONS], default=None)


def list_failed(recent: Iterable[JobRun], version_id: str) -> list[JobRun]:
    """Return the runs of a version that have not succeeded since one has, the newest first."""
    failed = []
    for run in recent:
        if run.version_id != version_id or run.state is RunState.SUCCEEDED:
            break
        if run.state in _UNSUCCESSFUL:
            failed.append(run)
    return failed
