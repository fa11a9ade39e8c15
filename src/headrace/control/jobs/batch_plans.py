"""Plans of batch jobs, and what applying them changes: the schedule, and no query."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headrace.control.jobs.firing import fire_last
from headrace.control.jobs.live_runs import skip_unmet, skip_waiting
from headrace.control.jobs.trigger_checks import list_sources
from headrace.deploy.schedule import describe_schedule, find_next, preview
from headrace.model.deployment import Job, JobVersion, PlannedFacts, VersionSpec
from headrace.model.job import JobDecision
from headrace.model.run import BatchSpec
from headrace.model.schedule import Schedule
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import file_watches, schedules, triggers
from headrace.text.readable import describe_count, describe_duration

_KIND_HINT = "Delete the job first: headrace job delete NAME. Its runs and its state end with it."


def describe_batch_change(
    spec: VersionSpec,
    version: JobVersion | None,
    facts: PlannedFacts,
    changed: list[str],
    now: datetime,
) -> dict[str, Any]:
    """Return decision, reason, hint and notes of a plan for a batch job.

    Args:
        version: The deployed version; None: the job is new.
        changed: Changed keys of the manifest.
        now: Time of the store.
    """
    assert spec.batch is not None
    if version is not None and version.spec.batch is None:
        reason = "a stream cannot become a batch job"
        return {"decision": JobDecision.ERROR, "reason": reason, "hint": _KIND_HINT}
    statements = describe_count(len(spec.batch.statements), "statement")
    if facts.is_new:
        decision, reason = JobDecision.START_CLEAN, f"The job is new. A run has {statements}."
    elif not facts.configuration_changed:
        decision, reason = JobDecision.UPDATE, "Nothing has changed. The job is started again."
    else:
        keys = ", ".join(changed) or "keys unknown"
        reason = f"It has changed ({keys}). Runs that are due already end under their version."
        decision = JobDecision.UPDATE
    return {"decision": decision, "reason": reason, "notes": _note_firings(spec.batch, now)}


def _note_firings(batch: BatchSpec, now: datetime) -> list[str]:
    schedule = batch.rules.schedule
    if schedule is None:
        return ["only users start it: headrace job run NAME"]
    return [
        *([f"a run starts: {describe_schedule(schedule)}"] if schedule.parts else []),
        *(
            _note_condition(part)
            for part in schedule.list_parts()
            if not part.is_of_time and part.on_files is None and not (part.after and schedule.parts)
        ),
        *([] if schedule.files is None else [_note_files(schedule)]),
        *([] if schedule.clock is None else _note_clock(schedule.clock, now)),
        *([_note_lookback(batch.rules.lookback)] if batch.rules.lookback else []),
    ]


def _note_lookback(count: int) -> str:
    times = describe_count(count, "time")
    return f"after each new run, the last {times} before it run again, with the jobs that follow"


def _note_clock(clock: Schedule, now: datetime) -> list[str]:
    shown = preview(clock, now)
    times = [f"{firing.local:%Y-%m-%d %H:%M:%S %z}" for firing in shown.firings]
    notes = [f"next runs: {', '.join(times)}"] if times else []
    shifted = [f"{firing.local:%Y-%m-%d %H:%M %z}" for firing in shown.at_change]
    if shifted:
        notes.append(f"around the next change of the clock: {', '.join(shifted)}")
    return [*notes, *shown.warnings]


def _note_condition(schedule: Schedule) -> str:
    tables = ", ".join(schedule.list_tables())
    if schedule.after is not None:
        return f"a run starts after {', '.join(schedule.list_upstream())}"
    limits = "writes of other programs and of streams are not seen"
    if schedule.max_lag is not None:
        lag = describe_duration(schedule.max_lag.total_seconds())
        return f"runs keep the rows at most {lag} behind the changes of {tables}; {limits}"
    return f"a run starts when a statement of Headrace changes {tables}; {limits}"


def _note_files(schedule: Schedule) -> str:
    files = schedule.files
    assert files is not None
    pattern = "" if files.pattern is None else f" with names such as {files.pattern}"
    is_alone = any(
        len(each.parts) == 1 and each.needs_files for each in schedule.list_combinations()
    )
    start = "a run starts when" if is_alone else "a run also needs that"
    return (
        f"{start} {files.on_files} has new files{pattern}; those that are there already count as"
        " new"
    )


def start_schedule(tx: Tx, job: Job, version: JobVersion) -> None:
    """Let a locked job fire by the schedule of a version.

    With the same schedule as before, the times that were missed meanwhile are made up for as the
    job wants it. Another schedule counts from now on.
    """
    assert version.spec.batch is not None
    rules, now = version.spec.batch.rules, read_clock(tx.connection)
    before = schedules.lock(tx, job.id)
    cursor = now
    if before is not None and before.rules.schedule == rules.schedule:
        cursor = before.cursor
    elif before is not None:
        if before.next_at is not None and before.next_at <= now:
            fire_last(tx, before, now)
        skip_unmet(tx, job.id, reason="The schedule was changed before its conditions were met.")
    following = None
    if rules.clock is not None:
        following = find_next(rules.clock, cursor)
    schedules.save(
        tx,
        job.id,
        version_id=version.id,
        rules=rules,
        cursor=cursor,
        next_at=None if following is None else following.instant,
    )
    sources = list_sources(rules.schedule)
    keeps = before is not None and before.rules.schedule == rules.schedule
    triggers.save(tx, job.id, owner=job.owner, sources=sources, keeps=keeps)
    if rules.files is None:
        file_watches.remove(tx, job.id)
    else:
        file_watches.save(tx, job.id)
    is_changed = before is None or before.version_id != version.id or not keeps
    if rules.max_lag is not None and is_changed:
        triggers.note_deployment(tx, job.id, version.id)


def stop_schedule(tx: Tx, job: Job, *, is_deleted: bool, actor: str) -> None:
    """Let a locked job fire no more. What is due already runs, unless the job is deleted."""
    if schedules.lock(tx, job.id) is None:
        return
    schedules.pause(tx, job.id)
    triggers.pause(tx, job.id)
    file_watches.pause(tx, job.id)
    if is_deleted:
        triggers.remove(tx, job.id)
        file_watches.remove(tx, job.id)
        skip_waiting(tx, job.id, actor=actor)
