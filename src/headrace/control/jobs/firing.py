"""Firings of schedules: the run of each logical time, inserted once, whatever dies.

The cursor of a schedule is the last logical time that has a run. The transaction that inserts runs
moves the cursor, so that a firing is neither lost nor doubled. No node leads: whichever node locks
the schedule first fires it. The clock of the store decides what is due.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate, islice, takewhile
from zoneinfo import ZoneInfoNotFoundError

from headrace.control.context import NodeContext
from headrace.deploy.schedule import Firing, find_last, find_next, list_firings
from headrace.model import time_zones
from headrace.model.lifecycle import RunState
from headrace.model.run import (
    RUN_KIND,
    CatchUp,
    JobRun,
    JobSchedule,
    Overlap,
    RunInput,
    RunTimes,
    RunTrigger,
)
from headrace.store import operations
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import runs, schedules, triggers

ACTOR = "schedule"
"""Actor of what the clock does."""
_LOG = logging.getLogger("headrace.schedules")
_AT_ONCE = 50
"""Schedules that one transaction fires."""
_RUNS_AT_ONCE = 100
"""Runs that one transaction inserts: other writers wait for it."""
_MOST_FIRINGS = 1000
"""Missed runs that are kept apart."""
_ON_TIME = timedelta(minutes=1)
"""Lateness from which a run counts as missed."""
MOST_WAITING = 100
"""Runs of a job that wait for their turn, above which its schedule waits as well."""
_MOST_BETWEEN = 1000
"""Runs that other conditions have started, among which the times of the clock are searched."""
_SKIPPED_AT_ONCE = 50
"""Runs, of those that wait for conditions, that make place for others."""
CANNOT_COMPUTE = (ZoneInfoNotFoundError, ValueError, OverflowError)
PARKED = timedelta(minutes=1)
"""Time after which a schedule that waits, or cannot be computed, is tried again."""


class Schedules:
    """Fires the schedules that are due. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def run(self) -> None:
        """Fire all schedules that are due."""
        with self._database.read() as tx:
            has_due = schedules.has_due(tx)
        while has_due:
            with self._database.write("schedule.fire") as tx:
                has_due = _fire_some(tx)


def _fire_some(tx: Tx) -> bool:
    """Fire some schedules that are due. Return whether there may be more."""
    due = schedules.lock_due(tx, _AT_ONCE)
    now, rest = read_clock(tx.connection), _RUNS_AT_ONCE
    job_ids = [each.job_id for each in due]
    live, times = runs.list_live_by_job(tx, job_ids), runs.list_times_by_job(tx, job_ids)
    for each in due:
        rest -= _fire(tx, each, now, live[each.job_id], times[each.job_id], limit=rest)
        if rest <= 0:
            return True
    return len(due) == _AT_ONCE


def fire(tx: Tx, schedule: JobSchedule, now: datetime) -> int:
    """Insert the runs of a locked schedule that are due, and move its cursor. Return their number.

    A schedule that waits, or cannot be computed, is tried again a moment later.
    """
    job_id = schedule.job_id
    live, times = runs.list_live_by_job(tx, [job_id]), runs.list_times_by_job(tx, [job_id])
    return _fire(tx, schedule, now, live[job_id], times[job_id], limit=_RUNS_AT_ONCE)


def _fire(
    tx: Tx,
    schedule: JobSchedule,
    now: datetime,
    live: list[JobRun],
    present: Collection[datetime],
    *,
    limit: int,
) -> int:
    """Fire a schedule as `fire` does.

    Args:
        live: The live runs of the job, the earliest logical time first.
        present: The logical times after the cursor for which the job has a run.
        limit: Largest number of runs to insert. The schedule stays due if it has more.
    """
    places = MOST_WAITING - len(live)
    if places <= 0:
        # The cursor waits as well: no firing is lost.
        _skip_oldest(tx, live)
        _park(tx, schedule, now)
        return 0
    try:
        due, next_at = _list_due(schedule, now, places, limit)
    except CANNOT_COMPUTE as error:
        # The zone may be missing on this host alone, and the other jobs must fire.
        _LOG.error("the schedule of %s cannot be computed: %s", schedule.name, error)
        _park(tx, schedule, now)
        return 0
    repeated = 0
    for each in due:
        # A user may have run the time before it was due: the cursor passes it.
        if each.times.logical_time not in present:
            repeated += len(insert_due(tx, schedule, each, live)) - 1
    last = due[-1].times.logical_time if due else schedule.cursor
    schedules.advance(tx, schedule.job_id, cursor=schedule.cursor, to=last, next_at=next_at)
    if due:
        _give_turns(tx, live, actor=ACTOR)
        if schedule.rules.clock_waits:
            # What is noted already may meet the other conditions of these times.
            triggers.wake(tx, schedule.job_id)
    return len(due) + repeated


def _skip_oldest(tx: Tx, live: Sequence[JobRun]) -> None:
    """End the oldest runs of a job if all its places have runs that wait for conditions.

    Conditions that are never met would stop the schedule otherwise. A run that is skipped runs
    again if its conditions are met later.
    """
    if all(run.awaits_conditions for run in live):
        for run in live[:_SKIPPED_AT_ONCE]:
            reason = (
                f"At most {MOST_WAITING} times can wait for their conditions; the oldest ones are"
                " skipped."
            )
            runs.end(tx, run, RunState.SKIPPED, actor=ACTOR, reason=reason)


def fire_last(tx: Tx, schedule: JobSchedule, now: datetime) -> None:
    """Fire a locked schedule that another one replaces.

    One skipped run stands for the times for which it has no place.
    """
    fire(tx, schedule, now)
    moved = schedules.find(tx, schedule.job_id)
    assert moved is not None
    assert moved.rules.clock is not None
    with suppress(*CANNOT_COMPUTE):
        last = find_last(moved.rules.clock, now + now.resolution)
        if last is None or last.instant <= moved.cursor:
            return
        times = make_times(moved, last, moved.cursor)
        if runs.find_last(tx, moved.job_id, last.instant) is None:
            reason = (
                f"The schedule was changed, and runs from {moved.cursor.isoformat()} on waited."
            )
            insert_due(tx, moved, DueRun(times, is_missed=True, skip_reason=reason), [])


def _park(tx: Tx, schedule: JobSchedule, now: datetime) -> None:
    """Try a schedule again a moment later."""
    cursor = schedule.cursor
    schedules.advance(tx, schedule.job_id, cursor=cursor, to=cursor, next_at=now + PARKED)


@dataclass(frozen=True, slots=True)
class DueRun:
    """A run to insert."""

    times: RunTimes
    is_missed: bool
    skip_reason: str | None
    """Why it is skipped, whatever else runs; None: it is not."""
    trigger: RunTrigger = RunTrigger.SCHEDULE
    inputs: Sequence[RunInput] = ()
    last: JobRun | None = None
    """The last run of the same logical time, which the run repeats; None: it is the first."""


def _list_due(
    schedule: JobSchedule, now: datetime, places: int, limit: int
) -> tuple[list[DueRun], datetime | None]:
    """Return the runs to insert, and the time of the next firing.

    Args:
        places: Largest number of runs that may begin to wait.
        limit: Largest number of runs to return.
    """
    rules = schedule.rules
    clock = rules.clock
    assert clock is not None
    passed = takewhile(lambda firing: firing.instant <= now, list_firings(clock, schedule.cursor))
    firings = list(islice(passed, _MOST_FIRINGS + 1))
    start, gap = schedule.cursor, list[DueRun]()
    if len(firings) > _MOST_FIRINGS and rules.catch_up is not CatchUp.ALL:
        # One row stands for all that were missed, apart from the last.
        last = find_last(clock, now + timedelta(microseconds=1))
        assert last is not None
        before = find_last(clock, last.instant)
        assert before is not None
        reason = f"All runs from {start.isoformat()} on were missed: they are more than 1,000."
        gap = [DueRun(make_times(schedule, before, start), True, reason)]
        start, firings = before.instant, [last]
    # `catch-up` decides about all of them, also about those of the next transaction.
    due = [*gap, *_apply_catch_up(schedule, firings, start, now)][:limit]
    waiting_counts = list(accumulate(each.skip_reason is None for each in due))
    due = due[: bisect_right(waiting_counts, places)]
    following = find_next(clock, due[-1].times.logical_time if due else schedule.cursor)
    return due, None if following is None else following.instant


def _apply_catch_up(
    schedule: JobSchedule, firings: Sequence[Firing], start: datetime, now: datetime
) -> list[DueRun]:
    missed = sum(now - firing.instant > _ON_TIME for firing in firings)
    catch_up = schedule.rules.catch_up
    made_up = {
        CatchUp.ALL: range(missed),
        # A run on time reads what the missed ones would have read.
        CatchUp.LAST: range(missed - 1, missed) if missed == len(firings) else range(0),
        CatchUp.NONE: range(0),
    }[catch_up]
    due = []
    for number, firing in enumerate(firings):
        reason = None
        if number < missed and number not in made_up:
            reason = f"The run was missed, and `catch-up` is {catch_up}."
        due.append(DueRun(make_times(schedule, firing, start), number < missed, reason))
        start = firing.instant
    return due


def make_times(schedule: JobSchedule, firing: Firing, start: datetime) -> RunTimes:
    """Return the times of the run of a firing, whose interval begins at `start`."""
    rule = schedule.rules.clock
    offset = firing.local.utcoffset() or timedelta()
    return RunTimes(
        logical_time=firing.instant,
        interval_start=start,
        interval_end=firing.instant,
        zone="UTC" if rule is None or rule.timezone is None else rule.timezone,
        utc_offset=int(offset.total_seconds()),
        is_shifted=firing.is_shifted,
        tzdata=time_zones.find_version(),
    )


def measure_times(recent: Sequence[JobRun], now: datetime) -> RunTimes:
    """Return the times of a run that starts now, whose interval begins at the run before it.

    Args:
        recent: Runs of the job, the newest first.
    """
    start = min(recent[0].times.logical_time, now) if recent else now
    return RunTimes(logical_time=now, interval_start=start, interval_end=now)


def span_until(tx: Tx, job_id: str, now: datetime) -> RunTimes:
    """Return the times of a run that a condition starts now: since the run before."""
    return measure_times(runs.page(tx, owners=None, job_id=job_id, limit=1), now)


def insert_due(tx: Tx, schedule: JobSchedule, due: DueRun, live: list[JobRun]) -> list[JobRun]:
    """Insert a run that is due. Overlaps are decided now, and not when a place is free.

    Return the run, and those of the earlier times that run again with it.

    Args:
        live: The live runs of the job. The new ones are added.
    """
    waits = due.trigger is RunTrigger.SCHEDULE and schedule.rules.clock_waits
    reason = due.skip_reason
    if reason is None and not waits and not due.is_missed:
        reason = _find_overlap(schedule, live)
    run = runs.insert_run(
        tx,
        schedule.job_id,
        owner=schedule.owner,
        name=schedule.name,
        version_id=schedule.version_id,
        trigger=due.trigger,
        times=due.times,
        due_at=due.times.logical_time + schedule.rules.delay,
        actor=ACTOR,
        last=due.last,
        inputs=due.inputs,
        awaits_conditions=waits,
    )
    if reason is not None:
        runs.end(tx, run, RunState.SKIPPED, actor=ACTOR, reason=reason)
        return [run]
    if not waits and not due.is_missed:
        _cancel_previous(tx, schedule, live)
    live.append(run)
    return [run] if waits else [run, *_look_back(tx, schedule, run, live)]


def count_places(live: Sequence[JobRun]) -> int:
    """Return how many runs of a job may be inserted, besides those that await conditions."""
    return max(MOST_WAITING - sum(not run.awaits_conditions for run in live), 0)


def start_waiting(
    tx: Tx, schedule: JobSchedule, run: JobRun, inputs: Sequence[RunInput], live: list[JobRun]
) -> None:
    """Let a run begin whose conditions are met. Overlaps are decided now.

    Args:
        live: The live runs of the job. The run is replaced in it.
    """
    others = [each for each in live if each.id != run.id]
    live[:] = others
    reason = _find_overlap(schedule, others)
    if reason is not None:
        runs.set_columns(tx, run.id, {"inputs": list(inputs)})
        runs.end(tx, run, RunState.SKIPPED, actor=ACTOR, reason=reason)
        return
    _cancel_previous(tx, schedule, others)
    runs.set_columns(tx, run.id, {"inputs": list(inputs), "awaits_conditions": False})
    live.append(replace(run, inputs=list(inputs), awaits_conditions=False))
    _look_back(tx, schedule, run, live)


def _look_back(tx: Tx, schedule: JobSchedule, run: JobRun, live: list[JobRun]) -> list[JobRun]:
    """Insert repetitions of the times before a new one, for data that came late.

    Return them. A time whose run has not ended, was skipped or was cancelled is left out.
    """
    if not schedule.rules.lookback or run.trigger is not RunTrigger.SCHEDULE:
        return []
    previous = _list_previous(tx, schedule, run)
    repeated = [each for each in previous if each.state in {RunState.SUCCEEDED, RunState.FAILED}]
    repetitions = list[JobRun]()
    for each in repeated:
        repetition = runs.insert_run(
            tx,
            run.job_id,
            owner=schedule.owner,
            name=schedule.name,
            version_id=schedule.version_id,
            trigger=RunTrigger.LOOKBACK,
            times=each.times,
            due_at=run.due_at,
            actor=ACTOR,
            last=each,
            inputs=[RunInput(job=run.name, run=run.id)],
        )
        repetitions.append(repetition)
    live += repetitions
    return repetitions


def _list_previous(tx: Tx, schedule: JobSchedule, run: JobRun) -> list[JobRun]:
    """Return the last runs of the times of the clock before a run, the latest first.

    Other conditions start runs between them, for example for new files.
    """
    count, before = schedule.rules.lookback, run.times.logical_time
    previous = list[JobRun]()
    for limit in (count, _MOST_BETWEEN):
        listed = runs.find_previous(tx, run.job_id, before=before, limit=limit)
        previous += [each for each in listed if _is_of_clock(schedule, each)]
        if len(listed) < limit or len(previous) >= count:
            break
        before = listed[-1].times.logical_time
    return previous[:count]


def _is_of_clock(schedule: JobSchedule, run: JobRun) -> bool:
    """Return whether the clock starts the time of a run, or has started it by a former schedule."""
    if run.trigger in {RunTrigger.SCHEDULE, RunTrigger.BACKFILL, RunTrigger.LOOKBACK}:
        return True
    clock, at = schedule.rules.clock, run.times.logical_time
    with suppress(*CANNOT_COMPUTE):
        firing = None if clock is None else find_next(clock, at - at.resolution)
        return firing is not None and firing.instant == at
    return False


def _find_overlap(schedule: JobSchedule, live: Sequence[JobRun]) -> str | None:
    """Return why a run is skipped beside live ones, or None."""
    others = list(filter(_overlaps, live))
    if not others or schedule.rules.overlap is not Overlap.SKIP:
        return None
    first = others[0]
    return f"The run {first.id} of {first.times.logical_time.isoformat()} is {first.state} still."


def _cancel_previous(tx: Tx, schedule: JobSchedule, live: Sequence[JobRun]) -> None:
    if schedule.rules.overlap is Overlap.CANCEL_PREVIOUS:
        for run in filter(_overlaps, live):
            runs.request_cancel(tx, run.id, actor=ACTOR)


def _overlaps(run: JobRun) -> bool:
    """Return whether a live run counts as an earlier one beside which a new time begins."""
    return not run.awaits_conditions and run.trigger is not RunTrigger.LOOKBACK


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
    """Give the next due run of a job its turn, if no other has it.

    The transaction has locked the schedule of the job, or the job itself.
    """
    _give_turns(tx, runs.list_live(tx, job_id), actor=actor)


def _give_turns(tx: Tx, live: Sequence[JobRun], *, actor: str) -> None:
    """Give the next of the live runs of a job their turn."""
    begun = [run for run in live if run.has_turn]
    waiting = [run for run in live if not run.has_turn and not run.awaits_conditions]
    # A new time is first.
    waiting.sort(key=lambda run: (run.trigger is RunTrigger.LOOKBACK, run.times.logical_time))
    for run in waiting:
        if len(begun) >= run.parallelism:
            return
        runs.give_turn(tx, run.id)
        operations.insert_operation(tx, RUN_KIND, run.id, actor=actor)
        begun.append(run)
