"""The live runs of a job, and the rules by which further runs join them.

The clock, conditions, new files and `max-lag` start runs by the same rules: `overlap`, `lookback`
and the limit of runs that wait. A transaction that starts runs has locked the schedule of the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfoNotFoundError

from headrace.deploy.schedule import find_next
from headrace.model.lifecycle import RunState
from headrace.model.run import (
    RUN_KIND,
    JobRun,
    JobSchedule,
    Overlap,
    RunInput,
    RunTimes,
    RunTrigger,
)
from headrace.store import operations
from headrace.store.database import Tx
from headrace.store.jobs import runs

ACTOR = "schedule"
"""Actor of what the schedule of a job does."""
MOST_WAITING = 100
"""Runs of a job that wait for their turn, above which its schedule waits as well."""
PARKED = timedelta(minutes=1)
"""Time after which a schedule that waits, or cannot be computed, is tried again."""
CANNOT_COMPUTE = (ZoneInfoNotFoundError, ValueError, OverflowError)
"""Errors of a schedule whose times cannot be computed, for example on a host without its zone."""
_MOST_BETWEEN = 1000
"""Runs that other conditions have started, among which the times of the clock are searched."""


@dataclass(frozen=True, slots=True)
class DueRun:
    """A run to insert."""

    times: RunTimes
    is_missed: bool = False
    skip_reason: str | None = None
    """Why it is skipped, whatever else runs; None: it is not."""
    trigger: RunTrigger = RunTrigger.SCHEDULE
    inputs: Sequence[RunInput] = ()
    last: JobRun | None = None
    """The last run of the same logical time, which the run repeats; None: it is the first."""


class LiveRuns:
    """The live runs of a job. A transaction that changes them has locked its schedule."""

    def __init__(self, tx: Tx, schedule: JobSchedule, live: Sequence[JobRun]) -> None:
        self.tx = tx
        self.schedule = schedule
        self.items = list(live)
        """The runs as read, the earliest logical time first, then those that have joined them."""

    @classmethod
    def read(cls, tx: Tx, schedule: JobSchedule) -> LiveRuns:
        """Return the live runs that the store has."""
        return cls(tx, schedule, runs.list_live(tx, schedule.job_id))

    def count_places(self) -> int:
        """Return how many runs may be inserted, besides those that await conditions."""
        return max(MOST_WAITING - sum(not run.awaits_conditions for run in self.items), 0)

    def find_last(self, instant: datetime) -> JobRun | None:
        """Return the last run of a logical time, live or not; None: the time has no run."""
        return runs.find_last(self.tx, self.schedule.job_id, instant)

    def insert(self, due: DueRun) -> list[JobRun]:
        """Insert a run. Overlaps are decided now, and not when a place is free.

        Return the run, and those of the earlier times that run again with it.
        """
        waits = due.trigger is RunTrigger.SCHEDULE and self.schedule.rules.clock_waits
        reason = due.skip_reason
        if reason is None and not waits and not due.is_missed:
            reason = self._find_overlap()
        due_at = due.times.logical_time + self.schedule.rules.delay
        run = self._insert_row(due, due_at, awaits_conditions=waits)
        if reason is not None:
            self.skip(run, reason)
            return [run]
        if not waits and not due.is_missed:
            self._cancel_previous()
        self.items.append(run)
        return [run] if waits else [run, *self._look_back(run)]

    def _insert_row(
        self, due: DueRun, due_at: datetime, *, awaits_conditions: bool = False
    ) -> JobRun:
        """Insert the row of a run that is due from an instant on."""
        return runs.insert_run(
            self.tx,
            self.schedule.job_id,
            owner=self.schedule.owner,
            name=self.schedule.name,
            version_id=self.schedule.version_id,
            trigger=due.trigger,
            times=due.times,
            due_at=due_at,
            actor=ACTOR,
            last=due.last,
            inputs=due.inputs,
            awaits_conditions=awaits_conditions,
        )

    def skip(self, run: JobRun, reason: str) -> None:
        """Skip a run that has not begun: it is live no more."""
        runs.end(self.tx, run, RunState.SKIPPED, actor=ACTOR, reason=reason)
        self.items = [each for each in self.items if each.id != run.id]

    def add_inputs(self, run: JobRun, inputs: Sequence[RunInput]) -> None:
        """Give a run that has not begun further inputs. If it awaits conditions, they are met."""
        merged = merge_inputs(run.inputs, inputs)
        if run.awaits_conditions:
            self._let_begin(run, merged)
            return
        runs.set_columns(self.tx, run.id, {"inputs": merged})
        # Another condition may give it further inputs in the same transaction.
        added = replace(run, inputs=merged)
        self.items = [added if each.id == run.id else each for each in self.items]

    def _let_begin(self, run: JobRun, inputs: list[RunInput]) -> None:
        """Let a run begin whose conditions are met. Overlaps are decided now."""
        self.items = [each for each in self.items if each.id != run.id]
        reason = self._find_overlap()
        if reason is not None:
            runs.set_columns(self.tx, run.id, {"inputs": inputs})
            self.skip(run, reason)
            return
        self._cancel_previous()
        runs.set_columns(self.tx, run.id, {"inputs": inputs, "awaits_conditions": False})
        self.items.append(replace(run, inputs=inputs, awaits_conditions=False))
        self._look_back(run)

    def _look_back(self, run: JobRun) -> list[JobRun]:
        """Insert repetitions of the times before a new one, for data that came late.

        Return them. A time runs again only if its run has succeeded or failed.
        """
        if not self.schedule.rules.lookback or run.trigger is not RunTrigger.SCHEDULE:
            return []
        repetitions = [
            self._insert_row(
                DueRun(
                    times=each.times,
                    trigger=RunTrigger.LOOKBACK,
                    inputs=[RunInput(job=run.name, run=run.id)],
                    last=each,
                ),
                run.due_at,
            )
            for each in self._list_previous(run)
            if each.state in {RunState.SUCCEEDED, RunState.FAILED}
        ]
        self.items += repetitions
        return repetitions

    def _list_previous(self, run: JobRun) -> list[JobRun]:
        """Return the last runs of the times of the clock before a run, the latest first.

        Other conditions start runs between them, for example for new files.
        """
        count, before = self.schedule.rules.lookback, run.times.logical_time
        previous = list[JobRun]()
        for limit in (count, _MOST_BETWEEN):
            listed = runs.find_previous(self.tx, run.job_id, before=before, limit=limit)
            previous += filter(self._is_of_clock, listed)
            if len(listed) < limit or len(previous) >= count:
                break
            before = listed[-1].times.logical_time
        return previous[:count]

    def _is_of_clock(self, run: JobRun) -> bool:
        """Return whether the clock starts the time of a run, or has started it formerly."""
        if run.trigger in {RunTrigger.SCHEDULE, RunTrigger.BACKFILL, RunTrigger.LOOKBACK}:
            return True
        clock, at = self.schedule.rules.clock, run.times.logical_time
        with suppress(*CANNOT_COMPUTE):
            firing = None if clock is None else find_next(clock, at - at.resolution)
            return firing is not None and firing.instant == at
        return False

    def _find_overlap(self) -> str | None:
        """Return why a run is skipped beside the live ones; None: it is not."""
        others = list(filter(_overlaps, self.items))
        if not others or self.schedule.rules.overlap is not Overlap.SKIP:
            return None
        first = others[0]
        at = first.times.logical_time.isoformat()
        return f"The run {first.id} of {at} is {first.state} still."

    def _cancel_previous(self) -> None:
        if self.schedule.rules.overlap is not Overlap.CANCEL_PREVIOUS:
            return
        for run in filter(_overlaps, self.items):
            runs.request_cancel(self.tx, run.id, actor=ACTOR)
        self.items = [
            replace(run, cancelled_by=run.cancelled_by or ACTOR) if _overlaps(run) else run
            for run in self.items
        ]


def _overlaps(run: JobRun) -> bool:
    """Return whether a live run counts as an earlier one beside which a new time begins."""
    return not run.awaits_conditions and run.trigger is not RunTrigger.LOOKBACK


def has_not_begun(run: JobRun) -> bool:
    """Return whether a run reads what has changed up to now: it has not begun."""
    return run.state is RunState.DUE and run.cancelled_by is None


def merge_inputs(before: Sequence[RunInput], after: Sequence[RunInput]) -> list[RunInput]:
    """Return the inputs of a run with further ones. Changes of one table are one input."""
    merged = {_find_input_key(each): each for each in before}
    for each in after:
        first = merged.get(_find_input_key(each), each)
        merged[_find_input_key(each)] = each.model_copy(
            update={"after_transaction": first.after_transaction}
        )
    return list(merged.values())


def _find_input_key(run_input: RunInput) -> str | None:
    """Return what two inputs of the same table, run or location have in common."""
    return run_input.table or run_input.run or run_input.location


def skip_unmet(tx: Tx, job_id: str, *, reason: str) -> None:
    """End the live runs of a job that wait for conditions."""
    for run in runs.list_live(tx, job_id):
        if run.awaits_conditions:
            runs.end(tx, run, RunState.SKIPPED, actor=ACTOR, reason=reason)


def skip_waiting(tx: Tx, job_id: str, *, actor: str) -> None:
    """End the live runs of a job that is deleted."""
    for run in runs.list_live(tx, job_id):
        if run.has_turn:
            runs.request_cancel(tx, run.id, actor=actor)
        else:
            runs.end(tx, run, RunState.SKIPPED, actor=actor, reason="The job was deleted.")


def start_next(tx: Tx, job_id: str, *, actor: str) -> None:
    """Give the next due runs of a job their turn.

    The transaction has locked the schedule of the job, or the job itself.
    """
    give_turns(tx, list_next(runs.list_live(tx, job_id)), actor=actor)


def give_turns(tx: Tx, run_ids: Sequence[str], *, actor: str) -> None:
    """Give runs their turn: nodes make them from now on."""
    if run_ids:
        runs.set_turns(tx, run_ids)
        operations.insert_operations(tx, RUN_KIND, run_ids, actor=actor)


def list_next(live: Sequence[JobRun]) -> list[str]:
    """Return the ids of the live runs of a job that get their turn.

    As many runs have it at a time as their `parallelism` says.
    """
    begun_count = sum(run.has_turn for run in live)
    waiting = [run for run in live if not run.has_turn and not run.awaits_conditions]
    # A new time is first.
    waiting.sort(key=lambda run: (run.trigger is RunTrigger.LOOKBACK, run.times.logical_time))
    chosen = list[str]()
    for run in waiting:
        if begun_count + len(chosen) >= run.parallelism:
            break
        chosen.append(run.id)
    return chosen
