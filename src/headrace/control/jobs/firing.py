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
from datetime import datetime, timedelta
from itertools import accumulate, islice, takewhile

from headrace.control.context import NodeContext
from headrace.control.jobs.live_runs import (
    ACTOR,
    CANNOT_COMPUTE,
    MOST_WAITING,
    PARKED,
    DueRun,
    LiveRuns,
    give_turns,
    list_next,
)
from headrace.deploy.schedule import Firing, find_last, find_next, list_firings
from headrace.model import time_zones
from headrace.model.run import CatchUp, JobRun, JobSchedule, RunTimes
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import runs, schedules, triggers
from headrace.store.jobs.schedules import NextFiring

_LOG = logging.getLogger("headrace.schedules")
_AT_ONCE = 50
"""Schedules that one transaction fires."""
_RUNS_AT_ONCE = 100
"""Runs that one transaction inserts: other writers wait for it."""
_MOST_FIRINGS = 1000
"""Missed runs that are kept apart."""
_ON_TIME = timedelta(minutes=1)
"""Lateness from which a run counts as missed."""
_SKIPPED_AT_ONCE = 50
"""Runs, of those that wait for conditions, that make place for others."""


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
    count = _fire_all(tx, due, read_clock(tx.connection))
    return count >= _RUNS_AT_ONCE or len(due) == _AT_ONCE


def fire(tx: Tx, schedule: JobSchedule, now: datetime) -> int:
    """Insert the runs of a locked schedule that are due, and move its cursor. Return their number.

    A schedule that waits, or cannot be computed, is tried again a moment later.
    """
    return _fire_all(tx, [schedule], now)


def _fire_all(tx: Tx, due: Sequence[JobSchedule], now: datetime) -> int:
    """Fire locked schedules, as `fire` does of one. Those beyond `_RUNS_AT_ONCE` stay due."""
    job_ids = [each.job_id for each in due]
    live_by_job, times = runs.list_live_by_job(tx, job_ids), runs.list_times_by_job(tx, job_ids)
    count, following, begun = 0, list[NextFiring](), list[str]()
    for each in due:
        if count >= _RUNS_AT_ONCE:
            break
        live = LiveRuns(tx, each, live_by_job[each.job_id])
        fired_count, next_firing = _fire(live, now, times[each.job_id], limit=_RUNS_AT_ONCE - count)
        count += fired_count
        following.append(next_firing)
        if fired_count:
            begun += list_next(live.items)
    # One statement for all cursors, and one for all turns.
    schedules.save_next_firings(tx, following)
    give_turns(tx, begun, actor=ACTOR)
    return count


def _fire(
    live: LiveRuns, now: datetime, present: Collection[datetime], *, limit: int
) -> tuple[int, NextFiring]:
    """Insert the runs of a schedule that are due, with the repetitions that follow from them.

    Return how many times and repetitions have been passed, and when the schedule fires next.

    Args:
        present: The logical times after the cursor for which the job has a run.
        limit: Largest number of runs to insert. The schedule stays due if it has more.
    """
    schedule = live.schedule
    parked = NextFiring(schedule.job_id, schedule.cursor, now + PARKED)
    places = MOST_WAITING - len(live.items)
    if places <= 0:
        # The cursor waits as well: no firing is lost.
        _skip_oldest(live)
        return 0, parked
    try:
        due, next_at = _list_due(schedule, now, places, limit)
    except CANNOT_COMPUTE as error:
        # The zone may be missing on this host alone, and the other jobs must fire.
        _LOG.error("the schedule of %s cannot be computed: %s", schedule.name, error)
        return 0, parked
    count = len(due)
    for each in due:
        # A user may have run the time before it was due: the cursor passes it.
        if each.times.logical_time not in present:
            count += len(live.insert(each)) - 1
    if due and schedule.rules.clock_waits:
        # What is noted already may meet the other conditions of these times.
        triggers.wake(live.tx, schedule.job_id)
    last = due[-1].times.logical_time if due else schedule.cursor
    return count, NextFiring(schedule.job_id, last, next_at)


def _skip_oldest(live: LiveRuns) -> None:
    """End the oldest runs of a job if all its places have runs that wait for conditions.

    Conditions that are never met would stop the schedule otherwise. A run that is skipped runs
    again if its conditions are met later.
    """
    if all(run.awaits_conditions for run in live.items):
        for run in live.items[:_SKIPPED_AT_ONCE]:
            live.skip(
                run,
                f"At most {MOST_WAITING} times can wait for their conditions; the oldest ones are"
                " skipped.",
            )


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
            due = DueRun(times, is_missed=True, skip_reason=reason)
            LiveRuns.read(tx, moved).insert(due)


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
