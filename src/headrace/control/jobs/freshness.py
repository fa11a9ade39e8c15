"""Runs of jobs with `max-lag`: when each starts, and how far its job is behind.

A change of a table stays noted until a run that was created after it has succeeded. The notes
therefore tell the lag, whatever fails, and no change is forgotten because a run has failed. At most
one run of a job is live at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from headrace.control.jobs.firing import measure_times
from headrace.control.jobs.live_runs import ACTOR, DueRun, LiveRuns, give_turns, list_next
from headrace.control.jobs.trigger_checks import list_sources
from headrace.deploy.schedule import to_table_key
from headrace.errors import InvalidStatement
from headrace.model.freshness import (
    Freshness,
    choose_start,
    estimate_duration,
    find_read_until,
    list_failed,
    select_kept,
)
from headrace.model.lifecycle import RunState
from headrace.model.lineage import TableUse
from headrace.model.retry_policy import RetryPolicy
from headrace.model.run import JobRun, JobSchedule, RunInput, RunTrigger, TableChange
from headrace.store import lineage
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import jobs, runs, schedules, triggers

_MOST_CHANGES = 1000
"""Changes of tables, the oldest first, that one transaction takes into account."""
_RECENT_RUNS = 50
"""Last runs of a job that tell what was read, how long runs take, and how many have failed."""


def refresh(tx: Tx, schedule: JobSchedule, max_lag: timedelta, now: datetime) -> None:
    """Insert the run of a locked schedule that reads what has changed, when it is time."""
    job_id = schedule.job_id
    changes = triggers.list_changes(tx, job_id, _MOST_CHANGES)
    recent = runs.page(tx, owners=None, job_id=job_id, limit=_RECENT_RUNS)
    live = LiveRuns.read(tx, schedule)
    unread = _list_unread(changes, recent)
    kept = select_kept(unread, [run.created_at for run in live.items])
    _remove(tx, job_id, set(changes).difference(kept), set(unread))
    if not kept or len(changes) == _MOST_CHANGES:
        # The next transaction looks at the rest.
        return
    tables = {row["source_key"]: row for row in triggers.list_tables(tx, job_id)}
    if live.items or any(row["is_paused"] for row in tables.values()):
        # The end of the run wakes them up, and so does the start of the job.
        triggers.wait_with_changes(tx, job_id, kept, None)
        return
    start = choose_start(kept, max_lag, estimate_duration(recent, schedule.version_id))
    backoff_end = _find_backoff_end(tx, schedule, recent)
    seconds = (max(start, backoff_end or start) - now).total_seconds()
    triggers.wait_with_changes(tx, job_id, kept, seconds if seconds > 0 else None)
    if seconds > 0:
        return
    inputs = [
        RunInput(
            table=tables[key]["source"],
            after_transaction=tables[key]["used_transaction_id"],
            last_transaction=change.transaction_id,
        )
        for key, change in {each.source_key: each for each in kept}.items()
        # A deployment is noted without a table.
        if key in tables
    ]
    due = DueRun(
        times=measure_times(recent, now),
        trigger=RunTrigger.CONDITION,
        inputs=inputs,
    )
    live.insert(due)
    give_turns(tx, list_next(live.items), actor=ACTOR)


def _list_unread(changes: Sequence[TableChange], recent: Sequence[JobRun]) -> list[TableChange]:
    """Return the changes that no successful run has read."""
    read_until = find_read_until(recent)
    return [each for each in changes if read_until is None or each.changed_at > read_until]


def _remove(
    tx: Tx, job_id: str, removed: Collection[TableChange], unread: Collection[TableChange]
) -> None:
    """Remove changes, and store which of those that were read was the last one of each table."""
    triggers.use_changes(tx, job_id, removed)
    read = sorted(
        set(removed).difference(unread), key=lambda each: (each.changed_at, each.transaction_id)
    )
    for key, change in {each.source_key: each for each in read}.items():
        triggers.mark_used(tx, job_id, key, change.transaction_id)


def _find_backoff_end(tx: Tx, schedule: JobSchedule, recent: Sequence[JobRun]) -> datetime | None:
    """Return the time before which no run starts after failed ones; None: the last has succeeded.

    The delay continues the backoff between the attempts of the runs.
    """
    failed = list_failed(recent, schedule.version_id)
    if not failed:
        return None
    version = jobs.get_version(tx, schedule.version_id)
    assert version is not None
    assert version.spec.batch is not None
    retries = version.spec.batch.retries
    policy = RetryPolicy(
        min_backoff=retries.min_backoff, max_backoff=retries.max_backoff, random_factor=0.0
    )
    attempts = sum(max(run.attempt, 1) for run in failed)
    ended_at = failed[0].ended_at
    assert ended_at is not None
    return ended_at + policy.delay(attempts - 1, 0.0)


def measure(tx: Tx, job_id: str) -> Freshness | None:
    """Return how far a job is behind; None: it has no `max-lag`."""
    schedule = schedules.find(tx, job_id)
    max_lag = None if schedule is None else schedule.rules.max_lag
    if schedule is None or max_lag is None:
        return None
    changes = triggers.list_changes(tx, job_id, _MOST_CHANGES)
    recent = runs.page(tx, owners=None, job_id=job_id, limit=_RECENT_RUNS)
    unread = _list_unread(changes, recent)
    now = read_clock(tx.connection)
    return Freshness(
        max_lag=max_lag,
        lag=max(now - unread[0].changed_at, timedelta()) if unread else timedelta(),
        expected=estimate_duration(recent, schedule.version_id),
        unwatched=_list_unwatched(tx, schedule, recent),
    )


def _list_unwatched(tx: Tx, schedule: JobSchedule, recent: Sequence[JobRun]) -> list[str]:
    """Return what the last successful run has read without being started by its changes.

    The query may read a view of the catalog, whose tables its text does not name. If the manifest
    names the tables, its author has chosen them.
    """
    version = jobs.get_version(tx, schedule.version_id)
    declared = None if version is None else version.spec.manifest.get("schedule")
    last = next(
        (
            run
            for run in recent
            if run.state is RunState.SUCCEEDED and run.version_id == schedule.version_id
        ),
        None,
    )
    if last is None or (isinstance(declared, dict) and "of" in declared):
        return []
    uses = [
        use
        for each in runs.list_statements(tx, [last.id])
        for use in lineage.list_of_statement(tx, each.statement_id)
    ]
    watched = {source.key for source in list_sources(schedule.rules.schedule)}
    written = {use.key for use in uses if use.is_written}
    return sorted(
        {
            use.display_name
            for use in uses
            if use.key not in written and _find_key(use) not in watched
        }
    )


def _find_key(use: TableUse) -> str | None:
    """Return the key of a table as a source of runs; None: it cannot be one."""
    try:
        return to_table_key(use.display_name)
    except InvalidStatement:
        return None
