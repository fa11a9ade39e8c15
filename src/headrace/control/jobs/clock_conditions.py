"""Conditions together with a clock: the logical times that wait until the others are met.

The run of a logical time is inserted when its time comes. It waits until each job has a run that
has succeeded and whose logical time is within the interval, each table has changed, and the
location has new files. The times of a clock tile the time, so that each upstream run belongs to
exactly one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headrace.control.jobs.firing import make_times
from headrace.control.jobs.live_runs import (
    CANNOT_COMPUTE,
    PARKED,
    DueRun,
    LiveRuns,
    has_not_begun,
    merge_inputs,
)
from headrace.control.jobs.run_notes import RunNotes
from headrace.deploy.schedule import Firing, find_last, find_next, to_table_key
from headrace.model.lifecycle import RunState
from headrace.model.run import (
    CatchUp,
    JobRun,
    JobSchedule,
    RunInput,
    RunTimes,
    RunTrigger,
    UpstreamRun,
)
from headrace.model.schedule import Combination, Schedule
from headrace.store.database import Tx
from headrace.store.jobs import runs, schedules, triggers
from headrace.text.readable import format_utc

_RETRY = timedelta(seconds=2)
"""Time after which a schedule is looked at again that an upstream schedule has to fire first."""


@dataclass(slots=True)
class _Time:
    """A logical time of the clock that has come, with the upstream runs that belong to it."""

    firing: Firing
    last: JobRun | None
    """The last run of the time."""
    members: list[UpstreamRun] = field(default_factory=list)

    @property
    def instant(self) -> datetime:
        """The logical time."""
        return self.firing.instant

    @property
    def inputs(self) -> list[RunInput]:
        """The upstream runs as inputs."""
        return [RunInput(job=each.run.name, run=each.run.id) for each in self.members]

    @property
    def was_passed_over(self) -> bool:
        """Whether the run of the time was skipped, and has used none of its conditions."""
        return self.last is not None and self.last.state is RunState.SKIPPED

    def can_start(self, *, has_files: bool) -> bool:
        """Return whether the time starts a run of a combination that needs files.

        New files start a time that has no run, or whose run waits for conditions or was skipped. A
        time that has files of its own runs again with these, and without new ones.
        """
        if self.last is None or self.last.files:
            return has_files is (self.last is None)
        return has_files and (self.was_passed_over or self.last.awaits_conditions)

    def has_runs_of(self, names: Collection[str]) -> bool:
        """Return whether each of these jobs has a run that belongs to the time."""
        present = {each.run.name.casefold() for each in self.members}
        if self.last is not None and self.was_passed_over:
            present |= {each.job.casefold() for each in self.last.inputs if each.job is not None}
        return set(names) <= present


def start_times(
    live: LiveRuns, notes: RunNotes, conditions: Combination, files: Sequence[RunInput] = ()
) -> None:
    """Start the runs of the times of a locked schedule for which all conditions are met.

    Args:
        files: New files, for a combination that needs them. Without them, it starts the times again
            that have read files.
    """
    catch_up = live.schedule.rules.catch_up
    try:
        times = _list_times(live, notes, conditions, has_files=bool(files))
        upstream = _UpstreamJobs(live, conditions)
    except CANNOT_COMPUTE:
        # The zone may be missing on this host alone.
        notes.retry_after(PARKED)
        return
    times = [each for each in times if not _leave_to_later(live, notes, each)]
    changes = notes.find_changes(conditions.watches)
    met = [each for each in times if each.has_runs_of(conditions.jobs)]
    ready = [each for each in met if not upstream.may_run_before(each.instant)]
    if len(ready) < len(met) and upstream.is_behind:
        notes.retry_after(_RETRY)
    if changes is None or not ready:
        return
    if conditions.watches or files:
        # One run uses the changes and the files.
        ready = ready[:1] if catch_up is CatchUp.ALL else ready[-1:]
    for each in ready:
        if not _start(live, each, [*changes, *files]):
            notes.retry_after(PARKED)
            return
        notes.use_runs(each.members)
    notes.use_changes(conditions.watches)
    if catch_up is not CatchUp.ALL:
        earlier = [each for each in times if each.instant < ready[-1].instant]
        _pass_over(live, notes, earlier, ready[-1], upstream)


def is_time_for_files(live: LiveRuns, notes: RunNotes, conditions: Combination) -> bool:
    """Return whether new files would start the run of a time. Change nothing."""
    try:
        times = _list_times(live, notes, conditions, has_files=True)
        upstream = _UpstreamJobs(live, conditions)
    except CANNOT_COMPUTE:
        return False
    met = (each for each in times if each.has_runs_of(conditions.jobs))
    return any(not upstream.may_run_before(each.instant) for each in met)


class _UpstreamJobs:
    """The jobs that must have succeeded, and which of their runs are still to come."""

    def __init__(self, live: LiveRuns, conditions: Combination) -> None:
        tx, owner = live.tx, live.schedule.owner
        clock, names = conditions.clock, conditions.jobs
        assert clock is not None
        live_upstream = runs.list_live_of_jobs(tx, owner, names) if names else []
        firings = [_find_firing(clock, run.times.logical_time) for run in live_upstream]
        self._live_instants = {firing.instant for firing in firings if firing is not None}
        self._next = [
            instant
            for each in (schedules.list_by_name(tx, owner, names) if names else [])
            for instant in _find_unfired(each)
        ]
        self.is_behind = False
        """Whether a schedule has to fire before the answer to a question is another one."""

    def may_run_before(self, instant: datetime) -> bool:
        """Return whether a further run that belongs to a time is live or fires soon."""
        if any(each <= instant for each in self._next):
            self.is_behind = True
            return True
        return instant in self._live_instants


def _find_unfired(schedule: JobSchedule) -> list[datetime]:
    """Return the next firing of a schedule; nothing if the clock does not start the job."""
    clock = schedule.rules.clock
    if clock is None or schedule.next_at is None:
        return []
    with suppress(*CANNOT_COMPUTE):
        firing = find_next(clock, schedule.cursor)
        return [] if firing is None else [firing.instant]
    return []


def _find_firing(clock: Schedule, instant: datetime) -> Firing | None:
    """Return the firing in whose interval an instant is: the first one from it on."""
    return find_next(clock, instant - instant.resolution)


def _list_times(
    live: LiveRuns, notes: RunNotes, conditions: Combination, *, has_files: bool
) -> list[_Time]:
    """Return the times that have come and that wait or have a new upstream run, oldest first."""
    clock = conditions.clock
    assert clock is not None
    waiting = {run.times.logical_time: run for run in live.items if run.awaits_conditions}
    times = {instant: _Time(Firing(instant, instant), run) for instant, run in waiting.items()}
    firing: Firing | None = None
    for each in notes.list_succeeded(conditions.jobs):
        at = each.run.times.logical_time
        if firing is None or at > firing.instant:
            firing = _find_firing(clock, at)
        if firing is None or firing.instant > live.schedule.cursor:
            # Its time has not come; nor has that of the runs after it.
            break
        if firing.instant not in times:
            times[firing.instant] = _Time(firing, live.find_last(firing.instant))
        times[firing.instant].members.append(each)
    found = sorted(times.values(), key=lambda time: time.instant)
    if not conditions.needs_files:
        return found
    return [each for each in found if each.can_start(has_files=has_files)]


def _leave_to_later(live: LiveRuns, notes: RunNotes, time: _Time) -> bool:
    """Return whether a time stays skipped, although an upstream run belongs to it.

    With `catch-up: last`, a later run reads what the skipped one would have read; a repetition
    that a user has asked for is followed nevertheless.
    """
    catch_up = live.schedule.rules.catch_up
    if catch_up is CatchUp.ALL or not time.was_passed_over or not time.members:
        return False
    if not all(_is_first(each.run) for each in time.members):
        return False
    is_read_later = any(
        has_not_begun(run) and run.times.logical_time > time.instant for run in live.items
    )
    if not is_read_later and not all(each.is_missed for each in time.members):
        return False
    _keep_inputs(live, notes, time)
    return True


def _is_first(run: JobRun) -> bool:
    by_itself = run.trigger in {RunTrigger.SCHEDULE, RunTrigger.CONDITION}
    return by_itself and run.repetition == 0


def _keep_inputs(live: LiveRuns, notes: RunNotes, time: _Time) -> None:
    """Store the upstream runs of a time with its run, which does not begin."""
    assert time.last is not None
    inputs = merge_inputs(time.last.inputs, time.inputs)
    runs.set_columns(live.tx, time.last.id, {"inputs": inputs})
    notes.use_runs(time.members)


def _start(live: LiveRuns, time: _Time, changes: list[RunInput]) -> bool:
    """Start the run of a time, or insert it. Return False if too many runs wait."""
    inputs = [*time.inputs, *changes]
    if time.last is not None and has_not_begun(time.last):
        live.add_inputs(time.last, inputs)
        return True
    if live.count_places() == 0:
        return False
    due = DueRun(
        times=_find_times(live.schedule, time) if time.last is None else time.last.times,
        is_missed=any(each.is_missed for each in time.members),
        trigger=RunTrigger.CONDITION,
        inputs=inputs,
        last=time.last,
    )
    live.insert(due)
    return True


def _find_times(schedule: JobSchedule, time: _Time) -> RunTimes:
    """Return the times of a run that the store has no more, or never had."""
    assert schedule.rules.clock is not None
    before = find_last(schedule.rules.clock, time.instant)
    return make_times(schedule, time.firing, time.instant if before is None else before.instant)


def _pass_over(
    live: LiveRuns,
    notes: RunNotes,
    earlier: Sequence[_Time],
    started: _Time,
    upstream: _UpstreamJobs,
) -> None:
    """Skip the times before one that has started, unless an upstream run of theirs is live."""
    for each in earlier:
        last = each.last
        if last is None or last not in live.items or not last.awaits_conditions:
            continue
        if not upstream.may_run_before(each.instant):
            _keep_inputs(live, notes, each)
            reason = (
                f"The run of {format_utc(started.instant)} has started first, and `catch-up` is"
                f" {live.schedule.rules.catch_up}."
            )
            live.skip(last, reason)


def describe_unmet(tx: Tx, waiting: Sequence[JobRun]) -> dict[str, str]:
    """Return what each run waits for that waits for conditions, by the run."""
    job_ids = {run.job_id for run in waiting}
    rules = {job_id: each.rules for job_id, each in schedules.list_of_jobs(tx, job_ids).items()}
    noted = runs.list_noted(tx, job_ids)
    changed = triggers.list_changed(tx, job_ids)
    return {
        run.id: _describe_combinations(
            rules[run.job_id].schedule,
            {
                name.casefold()
                for job_id, name, at in noted
                if job_id == run.job_id and run.times.interval_start < at <= run.times.interval_end
            },
            {key for job_id, key in changed if job_id == run.job_id},
        )
        for run in waiting
    }


def _describe_combinations(rule: Schedule | None, present: set[str], changed: set[str]) -> str:
    texts = [
        _describe_missing(each, present, changed)
        for each in ([] if rule is None else rule.list_combinations())
        if each.clock is not None
    ]
    return ", or ".join(dict.fromkeys(texts))


def _describe_missing(conditions: Combination, present: set[str], changed: set[str]) -> str:
    """Return what is missing of a combination, or what it waits for with everything."""
    names = [name for part in conditions.parts for name in part.after or []]
    missing = [f"a run of {name}" for name in names if name.casefold() not in present]
    missing += [
        f"a change of {' or '.join(each.on_change or [])}"
        for each in conditions.watches
        if changed.isdisjoint(map(to_table_key, each.on_change or []))
    ]
    if missing:
        return " and ".join(missing)
    # The store does not know which of these it is.
    waits = [f"runs of {' and '.join(names)} for its interval that have not ended"] if names else []
    if conditions.watches and not names:
        waits.append("the changes to settle")
    waits += [f"new files in {part.on_files}" for part in conditions.parts if part.on_files]
    return ", or ".join(waits)
