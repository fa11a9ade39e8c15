"""Conditions of schedules: the runs that start because other runs have ended or tables changed.

The transaction that ends a run or changes a table notes it for each job that it concerns. A
transaction of its own inserts the runs of these jobs and removes the notes, so that none is lost or
used twice. It locks the schedule of the job, as the firings of the clock do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from headrace.control.context import NodeContext
from headrace.control.jobs.clock_conditions import is_time_for_files, start_times
from headrace.control.jobs.firing import span_until
from headrace.control.jobs.freshness import refresh
from headrace.control.jobs.live_runs import (
    ACTOR,
    MOST_WAITING,
    PARKED,
    DueRun,
    LiveRuns,
    give_turns,
    has_not_begun,
    list_next,
)
from headrace.control.jobs.run_notes import RunNotes
from headrace.model.run import (
    CatchUp,
    JobRun,
    JobSchedule,
    RunInput,
    RunTimes,
    RunTrigger,
    UpstreamRun,
)
from headrace.model.schedule import Combination
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import runs, schedules, triggers

_AT_ONCE = 20
"""Jobs that one transaction looks at."""


class Conditions:
    """Starts the runs whose conditions are met. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def run(self) -> None:
        """Take all ends of runs into account that are noted."""
        while True:
            with self._database.read() as tx:
                job_ids = triggers.list_ready(tx, _AT_ONCE)
            if not job_ids:
                return
            with self._database.write("schedule.follow") as tx:
                locked = schedules.lock_some(tx, job_ids)
                for schedule in locked:
                    evaluate(tx, schedule)
            if not locked:
                # Other nodes are at it.
                return


@dataclass(frozen=True, slots=True)
class _InputSet:
    """Runs of all upstream jobs that start one run together."""

    members: list[UpstreamRun]

    @property
    def is_missed(self) -> bool:
        """Whether the job was stopped when one of the runs ended."""
        return any(member.is_missed for member in self.members)

    @property
    def times(self) -> RunTimes:
        """The latest logical time of the runs, and the interval that spans theirs."""
        all_times = [member.run.times for member in self.members]
        return replace(
            max(all_times, key=lambda times: times.logical_time),
            interval_start=min(times.interval_start for times in all_times),
            interval_end=max(times.interval_end for times in all_times),
        )

    @property
    def named(self) -> list[RunInput]:
        """The runs as inputs."""
        return [RunInput(job=member.run.name, run=member.run.id) for member in self.members]


def evaluate(tx: Tx, schedule: JobSchedule) -> None:
    """Insert or start the runs of a locked schedule whose conditions are met."""
    rule = schedule.rules.schedule
    if not triggers.has_sources(tx, schedule.job_id):
        # A run has ended, or a table has changed, while the job was changed or deleted.
        triggers.remove(tx, schedule.job_id)
        return
    if rule is None:
        # A node of a later version has stored the schedule, and starts the runs.
        triggers.postpone(tx, schedule.job_id, PARKED.total_seconds())
        return
    now = read_clock(tx.connection)
    if rule.max_lag is not None:
        # It may have followed jobs before.
        triggers.remove_ends(tx, schedule.job_id)
        refresh(tx, schedule, rule.max_lag, now)
        return
    live, notes = LiveRuns.read(tx, schedule), RunNotes(tx, schedule, now)
    if not notes.are_paused:
        combinations = rule.list_combinations()
        for each in combinations:
            _start_combination(live, notes, each)
        _skip_failed(live, notes, combinations)
    notes.save()
    give_turns(tx, list_next(live.items), actor=ACTOR)


def _start_combination(
    live: LiveRuns, notes: RunNotes, conditions: Combination, files: Sequence[RunInput] = ()
) -> None:
    """Start the runs of a combination whose conditions are met.

    Args:
        files: New files, for a combination that needs them.
    """
    if conditions.clock is not None:
        if not conditions.is_clock:
            start_times(live, notes, conditions, files)
    elif files or not conditions.needs_files:
        _start_runs(live, notes, conditions, files)
    else:
        _repeat_runs(live, notes, conditions)


def may_start_file_run(tx: Tx, schedule: JobSchedule) -> bool:
    """Return whether new files would start a run now. Lock and change nothing."""
    rule, live = schedule.rules.schedule, LiveRuns.read(tx, schedule)
    if rule is None or any(run.may_begin and run.files for run in live.items):
        # The run that waits begins first, and the next one reads all files that are new then.
        return False
    combinations = [each for each in rule.list_combinations() if each.needs_files]
    if any(len(each.parts) == 1 for each in combinations):
        return live.count_places() > 0
    notes = RunNotes(tx, schedule, read_clock(tx.connection))
    return any(_need_only_files(live, notes, each) for each in combinations)


def _need_only_files(live: LiveRuns, notes: RunNotes, conditions: Combination) -> bool:
    """Return whether the other conditions of a combination are met. Change nothing."""
    if notes.find_changes(conditions.watches) is None:
        return False
    if conditions.clock is not None:
        return is_time_for_files(live, notes, conditions)
    return not conditions.jobs or bool(_find_new_sets(live, notes, conditions))


def start_file_run(tx: Tx, schedule: JobSchedule, files: RunInput) -> str | None:
    """Insert or start the run of a locked schedule that reads new files.

    Return its id; None: the other conditions of each combination are not met.

    Args:
        files: The location and the number of the files.
    """
    rule = schedule.rules.schedule
    assert rule is not None
    live = LiveRuns.read(tx, schedule)
    notes = RunNotes(tx, schedule, read_clock(tx.connection))
    before = {run.id for run in live.items if run.files}
    for each in rule.list_combinations():
        if each.needs_files:
            _start_combination(live, notes, each, [files])
        started = next((run for run in live.items if run.files and run.id not in before), None)
        if started is not None:
            break
    if notes.has_used:
        notes.save()
        # Other combinations may need the rest.
        triggers.wake(tx, schedule.job_id)
    return None if started is None else started.id


def _start_runs(
    live: LiveRuns, notes: RunNotes, conditions: Combination, files: Sequence[RunInput]
) -> None:
    """Insert the runs of a combination without a clock whose conditions are met."""
    changes = notes.find_changes(conditions.watches)
    if changes is None:
        return
    if conditions.jobs:
        _start_sets(live, notes, conditions, changes, files)
    elif live.count_places():
        _start_changed(live, [*changes, *files], notes.now)
        notes.use_changes(conditions.watches)
    else:
        notes.retry_after(PARKED)


def _start_sets(
    live: LiveRuns,
    notes: RunNotes,
    conditions: Combination,
    changes: Sequence[RunInput],
    files: Sequence[RunInput],
) -> None:
    """Insert the runs that follow runs of other jobs, with changes and files that have come."""
    places = live.count_places()
    find = _find_new_sets if files else _find_sets
    sets = find(live, notes, conditions)
    if conditions.watches or files:
        sets = _merge_sets(live.schedule, sets)
    # `catch-up` decides about all of them, also about those of the next transaction.
    reasons = _apply_catch_up(live.schedule, sets)
    waiting_counts = list(accumulate(reason is None for reason in reasons))
    begun = sets[: min(bisect_right(waiting_counts, places), MOST_WAITING)]
    if len(begun) < len(sets):
        notes.retry_after(timedelta() if len(begun) == MOST_WAITING else PARKED)
    for inputs, reason in zip(begun, reasons, strict=False):
        # A run that is skipped leaves the files to the next one.
        _start(live, inputs, changes if reason else [*changes, *files], reason)
        notes.use_runs(inputs.members)
    if begun:
        notes.use_changes(conditions.watches)


def _repeat_runs(live: LiveRuns, notes: RunNotes, conditions: Combination) -> None:
    """Insert repetitions of runs that have read files, for upstream runs that have run again."""
    for inputs in _find_sets(live, notes, conditions):
        last = live.find_last(inputs.times.logical_time)
        if last is None or not last.files:
            continue
        if not live.count_places():
            notes.retry_after(PARKED)
            return
        [reason] = _apply_catch_up(live.schedule, [inputs])
        _start(live, inputs, [], reason)
        notes.use_runs(inputs.members)


def _find_new_sets(live: LiveRuns, notes: RunNotes, conditions: Combination) -> list[_InputSet]:
    """Return the sets that start a run with new files.

    A time that has read files runs again with these, and a run that may begin meanwhile would begin
    without them.
    """
    sets = _find_sets(live, notes, conditions)
    last = [live.find_last(each.times.logical_time) for each in sets]
    return [
        each
        for each, run in zip(sets, last, strict=True)
        if run is None or not (run.files or run.may_begin)
    ]


def _merge_sets(schedule: JobSchedule, sets: Sequence[_InputSet]) -> list[_InputSet]:
    """Return the sets as one: one run uses all changes and files, and the runs that wait for them.

    With `catch-up: none`, the sets that were missed are skipped, and not the others with them.
    """
    missed = [each for each in sets if each.is_missed and schedule.rules.catch_up is CatchUp.NONE]
    rest = [each for each in sets if each not in missed]
    parts = [[member for each in part for member in each.members] for part in (missed, rest)]
    return [_InputSet(members) for members in parts if members]


def _find_sets(live: LiveRuns, notes: RunNotes, conditions: Combination) -> list[_InputSet]:
    """Return the runs that start a run together, the oldest first.

    Runs belong together if they have one logical time, or if their intervals overlap. They wait
    while another run that belongs to them is live.
    """
    names, owner = conditions.jobs, live.schedule.owner
    live_upstream = runs.list_live_of_jobs(live.tx, owner, names) if len(names) > 1 else []
    sets = list[_InputSet]()
    for members in _group_related(notes.list_succeeded(names)):
        keys = {member.run.name.casefold() for member in members}
        waits = any(_belongs(member.run, each) for member in members for each in live_upstream)
        if len(keys) == len(names) and not waits:
            sets.append(_InputSet(members))
    return sets


def _group_related(ends: Sequence[UpstreamRun]) -> list[list[UpstreamRun]]:
    """Return runs in groups of those that belong together, directly or by others.

    The interval of a run ends at its logical time, so that runs of one time overlap.
    """
    if any(_is_empty(each.run.times) for each in ends):
        return [[*ends]]
    groups = list[list[UpstreamRun]]()
    last = datetime.min.replace(tzinfo=UTC)
    for each in sorted(ends, key=lambda end: end.run.times.interval_start):
        if each.run.times.interval_start < last:
            groups[-1].append(each)
        else:
            groups.append([each])
        last = max(last, each.run.times.interval_end)
    return groups


def _belongs(first: JobRun, other: JobRun) -> bool:
    one, two = first.times, other.times
    if one.logical_time == two.logical_time:
        return True
    overlaps = one.interval_start < two.interval_end and two.interval_start < one.interval_end
    return _is_empty(one) or _is_empty(two) or overlaps


def _is_empty(times: RunTimes) -> bool:
    """Return whether the interval of a run is empty, as that of a job without a clock."""
    return times.interval_start == times.interval_end


def _apply_catch_up(schedule: JobSchedule, sets: Sequence[_InputSet]) -> list[str | None]:
    """Return why the run of each set is skipped; None: it is not."""
    catch_up = schedule.rules.catch_up
    reasons = list[str | None]()
    for number, each in enumerate(sets):
        is_made_up = catch_up is CatchUp.ALL or (
            catch_up is CatchUp.LAST and number == len(sets) - 1
        )
        skips = each.is_missed and not is_made_up
        reasons.append(f"The run was missed, and `catch-up` is {catch_up}." if skips else None)
    return reasons


def _start(
    live: LiveRuns, inputs: _InputSet, changes: Sequence[RunInput], skip_reason: str | None
) -> None:
    """Insert the run of a set, unless one of its logical time is due and has not begun."""
    named = [*inputs.named, *changes]
    last = live.find_last(inputs.times.logical_time)
    if last is not None and has_not_begun(last):
        live.add_inputs(last, named)
        return
    due = DueRun(
        times=inputs.times,
        is_missed=inputs.is_missed,
        skip_reason=skip_reason,
        trigger=RunTrigger.CONDITION,
        inputs=named,
        last=last,
    )
    live.insert(due)


def _skip_failed(live: LiveRuns, notes: RunNotes, combinations: Sequence[Combination]) -> None:
    """Insert a skipped run for each upstream run that has not succeeded.

    A time of a clock waits for a repetition of the upstream run instead.
    """
    names = {name for each in combinations if each.clock is None for name in each.jobs}
    for each in notes.list_unsuccessful():
        if each.run.name.casefold() in names:
            _skip(live, each.run)
        notes.use_runs([each])


def _skip(live: LiveRuns, upstream: JobRun) -> None:
    """Insert a skipped run for an upstream run that has not succeeded, unless the time has one."""
    if live.find_last(upstream.times.logical_time) is not None:
        return
    due = DueRun(
        times=upstream.times,
        skip_reason=f"The run {upstream.id} of {upstream.name} is {upstream.state}.",
        trigger=RunTrigger.CONDITION,
        inputs=[RunInput(job=upstream.name, run=upstream.id)],
    )
    live.insert(due)


def _start_changed(live: LiveRuns, inputs: list[RunInput], now: datetime) -> None:
    """Insert a run for changes of tables and new files.

    Changes without files are added to a run that is due and has not begun. Files are not: the run
    may begin meanwhile, without them.
    """
    waiting = [
        run for run in live.items if run.trigger is RunTrigger.CONDITION and has_not_begun(run)
    ]
    if waiting and not any(each.location for each in inputs):
        live.add_inputs(waiting[-1], inputs)
        return
    times = span_until(live.tx, live.schedule.job_id, now)
    live.insert(DueRun(times=times, trigger=RunTrigger.CONDITION, inputs=inputs))
