"""Conditions of schedules: the runs that start because other runs have ended or tables changed.

The transaction that ends a run or changes a table notes it for each job that it concerns. A
transaction of its own inserts the runs of these jobs and removes the notes, so that none is lost or
used twice. It locks the schedule of the job, as the firings of the clock do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headrace.control.context import NodeContext
from headrace.control.jobs.firing import (
    ACTOR,
    MOST_WAITING,
    PARKED,
    DueRun,
    insert_due,
    measure_times,
    start_next,
)
from headrace.control.jobs.freshness import refresh
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
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import runs, schedules, triggers

_AT_ONCE = 20
"""Jobs that one transaction looks at."""
_MOST_ENDS = 1000
"""Ends of runs, the oldest first, among which those of one run are searched."""
_MOST_CHANGES = 1000
"""Changes of tables, the oldest first, that one run takes into account at a time."""
_SETTLE = timedelta(seconds=5)
"""Time without a change after which a run starts, unless the schedule says otherwise."""
_LONGEST_BURST = 10
"""Settle times after which a run starts although changes continue."""


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
                    _evaluate(tx, schedule)
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
    def run_ids(self) -> list[str]:
        """Ids of the runs."""
        return [member.run.id for member in self.members]


def _evaluate(tx: Tx, schedule: JobSchedule) -> None:
    rule = schedule.rules.schedule
    for part in [] if rule is None else rule.list_conditions():
        if part.max_lag is not None:
            refresh(tx, schedule, part.max_lag, read_clock(tx.connection))
        elif part.on_change is None:
            follow(tx, schedule)
        else:
            follow_changes(
                tx,
                schedule,
                _SETTLE if part.settle is None else part.settle,
                read_clock(tx.connection),
            )


def follow(tx: Tx, schedule: JobSchedule) -> None:
    """Insert the runs of a locked schedule for which all upstream jobs have a new run."""
    ends = runs.list_upstream(tx, schedule.job_id, _MOST_ENDS)
    live = runs.list_live(tx, schedule.job_id)
    succeeded = [each for each in ends if each.run.state is RunState.SUCCEEDED]
    sets = _find_sets(tx, schedule, succeeded)
    begun = sets[: max(MOST_WAITING - len(live), 0)]
    reasons = _apply_catch_up(schedule, begun)
    for inputs, reason in zip(begun, reasons, strict=True):
        _start(tx, schedule, inputs, reason, live)
    used = {run_id for inputs in begun for run_id in inputs.run_ids}
    for end in ends:
        if end.run.state is not RunState.SUCCEEDED:
            _skip(tx, schedule, end.run, live)
            used.add(end.run.id)
    triggers.use(tx, schedule.job_id, used)
    rest = [each.run.id for each in ends if each.run.id not in used]
    is_full = len(begun) < len(sets)
    triggers.wait(tx, schedule.job_id, rest, PARKED.total_seconds() if is_full else None)
    start_next(tx, schedule.job_id, actor=ACTOR)


def _find_sets(tx: Tx, schedule: JobSchedule, succeeded: Sequence[UpstreamRun]) -> list[_InputSet]:
    """Return the runs that start a run together, the oldest first.

    Runs belong together if they have one logical time, or if their intervals overlap. They wait
    while another run that belongs to them is live.
    """
    assert schedule.rules.schedule is not None
    names = schedule.rules.schedule.list_upstream()
    live = runs.list_live_of_jobs(tx, schedule.owner, names) if len(names) > 1 else []
    sets, rest = list[_InputSet](), list(succeeded)
    while rest:
        members = _take_related(rest)
        keys = {member.run.name.casefold() for member in members}
        waits = any(_belongs(member.run, each) for member in members for each in live)
        if len(keys) == len(names) and not waits:
            sets.append(_InputSet(members))
    return sets


def _take_related(rest: list[UpstreamRun]) -> list[UpstreamRun]:
    """Remove the first run and those that belong to it, directly or by others. Return them."""
    members, border = list[UpstreamRun](), [rest.pop(0)]
    while border:
        first = border.pop()
        members.append(first)
        border += [each for each in rest if _belongs(first.run, each.run)]
        rest[:] = [each for each in rest if not _belongs(first.run, each.run)]
    return members


def _belongs(first: JobRun, other: JobRun) -> bool:
    one, two = first.times, other.times
    if one.logical_time == two.logical_time:
        return True
    # The run of a job without a clock has an empty interval.
    is_empty = one.interval_start == one.interval_end or two.interval_start == two.interval_end
    overlaps = one.interval_start < two.interval_end and two.interval_start < one.interval_end
    return is_empty or overlaps


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
    tx: Tx, schedule: JobSchedule, inputs: _InputSet, skip_reason: str | None, live: list[JobRun]
) -> None:
    """Insert the run of a set, unless one of its logical time is due and has not begun."""
    named = [RunInput(job=each.run.name, run=each.run.id) for each in inputs.members]
    last = runs.find_last(tx, schedule.job_id, inputs.times.logical_time)
    if last is not None and _serves(last):
        runs.set_columns(tx, last.id, {"inputs": [*last.inputs, *named]})
        return
    due = DueRun(
        times=inputs.times,
        is_missed=inputs.is_missed,
        skip_reason=skip_reason,
        trigger=RunTrigger.CONDITION,
        inputs=named,
        repetition=0 if last is None else last.repetition + 1,
    )
    insert_due(tx, schedule, due, live)


def _skip(tx: Tx, schedule: JobSchedule, upstream: JobRun, live: list[JobRun]) -> None:
    """Insert a skipped run for an upstream run that has not succeeded, unless the time has one."""
    if runs.find_last(tx, schedule.job_id, upstream.times.logical_time) is not None:
        return
    due = DueRun(
        times=upstream.times,
        is_missed=False,
        skip_reason=f"The run {upstream.id} of {upstream.name} is {upstream.state}.",
        trigger=RunTrigger.CONDITION,
        inputs=[RunInput(job=upstream.name, run=upstream.id)],
    )
    insert_due(tx, schedule, due, live)


def follow_changes(tx: Tx, schedule: JobSchedule, settle: timedelta, now: datetime) -> None:
    """Insert the run of a locked schedule for the changes of its tables, when they have settled."""
    job_id = schedule.job_id
    changes = triggers.list_changes(tx, job_id, _MOST_CHANGES)
    if not changes:
        return
    tables = {row["source_key"]: row for row in triggers.list_tables(tx, job_id)}
    last = {each.source_key: each for each in changes}
    if any(row["is_paused"] for row in tables.values()):
        kept = {each.transaction_id for each in last.values()}
        triggers.use_changes(
            tx, job_id, [each for each in changes if each.transaction_id not in kept]
        )
        triggers.wait_with_changes(tx, job_id, last.values(), None)
        return
    settled_at = min(
        changes[-1].changed_at + settle, changes[0].changed_at + _LONGEST_BURST * settle
    )
    live = runs.list_live(tx, job_id)
    seconds = (settled_at - now).total_seconds()
    if seconds > 0 or len(live) >= MOST_WAITING:
        triggers.wait_with_changes(
            tx, job_id, changes, seconds if seconds > 0 else PARKED.total_seconds()
        )
        return
    inputs = [
        RunInput(
            table=tables[key]["source"],
            after_transaction=tables[key]["used_transaction_id"],
            last_transaction=change.transaction_id,
        )
        for key, change in last.items()
    ]
    _start_changed(tx, schedule, inputs, live, now)
    for key, change in last.items():
        triggers.mark_used(tx, job_id, key, change.transaction_id)
    triggers.use_changes(tx, job_id, changes)
    start_next(tx, job_id, actor=ACTOR)


def _start_changed(
    tx: Tx, schedule: JobSchedule, inputs: list[RunInput], live: list[JobRun], now: datetime
) -> None:
    """Insert a run for changes of tables, unless one is due that has not begun."""
    waiting = [run for run in live if run.trigger is RunTrigger.CONDITION and _serves(run)]
    if waiting:
        runs.set_columns(tx, waiting[-1].id, {"inputs": _merge(waiting[-1].inputs, inputs)})
        return
    newest = runs.page(tx, owners=None, job_id=schedule.job_id, limit=1)
    due = DueRun(
        times=measure_times(newest, now),
        is_missed=False,
        skip_reason=None,
        trigger=RunTrigger.CONDITION,
        inputs=inputs,
    )
    insert_due(tx, schedule, due, live)


def _merge(before: Sequence[RunInput], after: Sequence[RunInput]) -> list[RunInput]:
    """Return the inputs of a run with further changes of tables."""
    merged = {each.table: each for each in before if each.table is not None}
    runs_followed = [each for each in before if each.table is None]
    for each in after:
        assert each.table is not None
        first = merged.get(each.table, each)
        merged[each.table] = each.model_copy(update={"after_transaction": first.after_transaction})
    return [*runs_followed, *merged.values()]


def _serves(run: JobRun) -> bool:
    """Return whether a run reads what has changed up to now: it has not begun."""
    return run.state is RunState.DUE and run.cancelled_by is None
