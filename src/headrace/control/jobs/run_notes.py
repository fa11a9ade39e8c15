"""Notes of a job: ends of runs and changes of tables that it has not used yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from headrace.control.jobs.live_runs import PARKED
from headrace.deploy.schedule import to_table_key
from headrace.model.lifecycle import RunState
from headrace.model.run import JobSchedule, RunInput, TableChange, UpstreamRun
from headrace.model.schedule import LONGEST_BURST, SETTLE, Schedule
from headrace.store.database import Tx
from headrace.store.jobs import runs, triggers

_MOST_ENDS = 10_000
"""Ends of runs among which those of one run are searched: a week of a job that runs each minute."""
_MOST_CHANGES = 1000
"""Changes of tables, the oldest first, that one run takes into account at a time."""


class RunNotes:
    """What a job with a locked schedule has yet to take into account, and what it has used."""

    def __init__(self, tx: Tx, schedule: JobSchedule, now: datetime) -> None:
        self._tx = tx
        self._job_id = schedule.job_id
        self.now = now
        self._tables = {row["source_key"]: row for row in triggers.list_tables(tx, self._job_id)}
        self._ends = runs.list_upstream(tx, self._job_id, _MOST_ENDS)
        self._has_more_ends = len(self._ends) == _MOST_ENDS
        if self._has_more_ends:
            self._ends = _list_matching(tx, schedule)
        self._changes = triggers.list_changes(tx, self._job_id, _MOST_CHANGES)
        self._used_ids = set[str]()
        self._used_changes = list[TableChange]()
        self._wait: timedelta | None = None
        self._settling: timedelta | None = None

    @property
    def are_paused(self) -> bool:
        """Whether the job is stopped, so that it keeps its notes until its start."""
        return any(row["is_paused"] for row in self._tables.values())

    @property
    def has_used(self) -> bool:
        """Whether a run has used one of them."""
        return bool(self._used_ids or self._used_changes)

    def list_succeeded(self, names: Collection[str]) -> list[UpstreamRun]:
        """Return the runs of these jobs that have succeeded, the earliest logical time first."""
        return [
            each
            for each in self._ends
            if each.run.state is RunState.SUCCEEDED
            and each.run.id not in self._used_ids
            and each.run.name.casefold() in names
        ]

    def list_unsuccessful(self) -> list[UpstreamRun]:
        """Return the runs that have ended otherwise."""
        return [each for each in self._ends if each.run.state is not RunState.SUCCEEDED]

    def find_changes(self, watches: Iterable[Schedule]) -> list[RunInput] | None:
        """Return the last changes of tables, if each condition has one and they have settled.

        None: a change is missing, or more may follow at once.
        """
        inputs = list[RunInput]()
        for watch in watches:
            changes = self._list_changes(watch)
            if not changes or not self._have_settled(changes, watch):
                return None
            inputs += [
                RunInput(
                    table=self._tables[key]["source"],
                    after_transaction=self._tables[key]["used_transaction_id"],
                    last_transaction=change.transaction_id,
                )
                for key, change in _find_last(changes).items()
            ]
        return inputs

    def _list_changes(self, watch: Schedule) -> list[TableChange]:
        keys = {to_table_key(name) for name in watch.on_change or []}
        unused = (each for each in self._changes if each not in self._used_changes)
        return [each for each in unused if each.source_key in keys]

    def _have_settled(self, changes: Sequence[TableChange], watch: Schedule) -> bool:
        settle = SETTLE if watch.settle is None else watch.settle
        settled_at = min(
            changes[-1].changed_at + settle, changes[0].changed_at + LONGEST_BURST * settle
        )
        left = settled_at - self.now
        if left <= timedelta():
            return True
        self._settling = left if self._settling is None else min(left, self._settling)
        return False

    def use_runs(self, used: Iterable[UpstreamRun]) -> None:
        """Remove runs when the notes are saved."""
        self._used_ids |= {each.run.id for each in used}

    def use_changes(self, watches: Iterable[Schedule]) -> None:
        """Remove the changes of conditions when the notes are saved."""
        for watch in watches:
            changes = self._list_changes(watch)
            for key, change in _find_last(changes).items():
                triggers.mark_used(self._tx, self._job_id, key, change.transaction_id)
            self._used_changes += changes

    def retry_after(self, wait: timedelta) -> None:
        """Let the job look at its notes again after a time, and not with the next note."""
        self._wait = wait if self._wait is None else min(wait, self._wait)

    def save(self) -> None:
        """Remove what is used, and let the job wait with the rest."""
        triggers.use(self._tx, self._job_id, self._used_ids)
        if self._has_more_ends and not self._used_ids:
            # The others are not read before something else happens.
            triggers.postpone(self._tx, self._job_id, PARKED.total_seconds())
        rest = [each.run.id for each in self._ends if each.run.id not in self._used_ids]
        triggers.wait(self._tx, self._job_id, rest, _to_seconds(self._wait))
        changes = [each for each in self._changes if each not in self._used_changes]
        # A run needs the last change of each table, and the first one says how long a burst is.
        needed = {*_find_last(changes).values()}
        if self._settling is not None:
            needed |= {*_find_last(reversed(changes)).values()}
        self._used_changes += [each for each in changes if each not in needed]
        changes = [each for each in changes if each in needed]
        triggers.use_changes(self._tx, self._job_id, self._used_changes)
        waits = [each for each in (self._wait, self._settling) if each is not None]
        triggers.wait_with_changes(
            self._tx, self._job_id, changes, _to_seconds(min(waits, default=None))
        )


def _list_matching(tx: Tx, schedule: JobSchedule) -> list[UpstreamRun]:
    """Return ends of runs that a job has not used, the oldest first.

    Ends are left out that wait for a run of another job which has none as old.
    """
    rule = schedule.rules.schedule
    assert rule is not None
    first = runs.find_first_noted(tx, schedule.job_id)
    combinations = [each.jobs for each in rule.list_combinations() if each.jobs]
    starts = [max(map(first.__getitem__, names)) for names in combinations if names <= first.keys()]
    after = min(starts, default=None)
    return runs.list_upstream(tx, schedule.job_id, _MOST_ENDS, after=after)


def _find_last(changes: Iterable[TableChange]) -> dict[str, TableChange]:
    """Return the last change of each table, by its key."""
    return {each.source_key: each for each in changes}


def _to_seconds(wait: timedelta | None) -> float | None:
    return None if wait is None else wait.total_seconds()
