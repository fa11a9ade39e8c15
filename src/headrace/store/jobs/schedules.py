"""Schedules of deployed batch jobs: their cursors, and which of them are due."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from headrace.model.lifecycle import JobState
from headrace.model.run import FiringRules, JobSchedule
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.tables import job_schedules as table
from headrace.store.tables import jobs, table_changes
from headrace.text.durations import seconds_of

_COLUMNS = [column for column in table.c if column.name != "max_lag"]
_SELECT = select(*_COLUMNS, jobs.c.owner, jobs.c.name).join(jobs, jobs.c.id == table.c.job_id)
_SAVE_NEXT = (
    update(table)
    .where(table.c.job_id == bindparam("of_job"))
    .values(cursor=bindparam("new_cursor"), next_at=bindparam("at"))
)


@dataclass(frozen=True, slots=True)
class JobLag:
    """The lag of a job with `max-lag`, in seconds."""

    owner: str
    name: str
    lag: float
    """Age of the oldest change of its tables that it has noted."""
    max_lag: float


def save(
    tx: Tx,
    job_id: str,
    *,
    version_id: str,
    rules: FiringRules,
    cursor: datetime,
    next_at: datetime | None,
) -> None:
    """Store the schedule of a locked job, in place of an earlier one."""
    columns: dict[str, Any] = {
        "version_id": version_id,
        "rules": rules,
        "cursor": cursor,
        "next_at": next_at,
        "max_lag": seconds_of(rules.max_lag),
    }
    change = update(table).where(table.c.job_id == job_id).values(columns)
    if not tx.execute(change).rowcount:
        tx.execute(insert(table).values(job_id=job_id, **columns))


@dataclass(frozen=True, slots=True)
class NextFiring:
    """When a schedule fires next, and from which instant on."""

    job_id: str
    cursor: datetime
    """No firing at this instant or before it is inserted any more."""
    at: datetime | None
    """Time at which the schedule is looked at; None: it has no further firing."""


def save_next_firings(tx: Tx, firings: Sequence[NextFiring]) -> None:
    """Store the next firings of schedules.

    The transaction has locked the schedules, so that no other node has moved their cursors.
    """
    rows = [{"of_job": each.job_id, "new_cursor": each.cursor, "at": each.at} for each in firings]
    if rows:
        tx.execute(_SAVE_NEXT, rows)


def pause(tx: Tx, job_id: str) -> None:
    """Stop the firings of a job. Its cursor stays."""
    tx.execute(update(table).where(table.c.job_id == job_id).values(next_at=None))


def find(tx: Tx, job_id: str) -> JobSchedule | None:
    """Return the schedule of a job, or None."""
    row = tx.execute(_SELECT.where(table.c.job_id == job_id)).mappings().one_or_none()
    return None if row is None else JobSchedule(**row)


def list_of_jobs(tx: Tx, job_ids: Collection[str]) -> dict[str, JobSchedule]:
    """Return the schedules of these jobs, by job."""
    rows = tx.execute(_SELECT.where(table.c.job_id.in_(sorted(job_ids)))).mappings()
    return {row["job_id"]: JobSchedule(**row) for row in rows}


def list_by_name(tx: Tx, owner: str, names: Collection[str]) -> list[JobSchedule]:
    """Return the schedules of the live jobs of an owner with these names."""
    keys = [name.casefold() for name in names]
    query = _SELECT.where(
        jobs.c.owner == owner, jobs.c.name_key.in_(keys), jobs.c.ended_at.is_(None)
    )
    return [JobSchedule(**row) for row in tx.execute(query).mappings()]


def lock(tx: Tx, job_id: str) -> JobSchedule | None:
    """Lock the schedule of a job, and return it; None: the job has none."""
    locked = _SELECT.where(table.c.job_id == job_id).with_for_update(of=table)
    row = tx.execute(locked).mappings().one_or_none()
    return None if row is None else JobSchedule(**row)


def lock_some(tx: Tx, job_ids: Collection[str]) -> list[JobSchedule]:
    """Lock the schedules of these jobs that no other transaction has locked."""
    query = _SELECT.where(table.c.job_id.in_(job_ids)).order_by(table.c.job_id)
    locked = query.with_for_update(of=table, skip_locked=True)
    return [JobSchedule(**row) for row in tx.execute(locked).mappings()]


def has_due(tx: Tx) -> bool:
    """Return whether a schedule fires now."""
    query = select(table.c.job_id).where(table.c.next_at <= clock()).limit(1)
    return tx.execute(query).first() is not None


def lock_due(tx: Tx, limit: int) -> list[JobSchedule]:
    """Lock the schedules that fire now and that no other node fires, the latest ones first."""
    query = _SELECT.where(table.c.next_at <= clock()).order_by(table.c.next_at, table.c.job_id)
    locked = query.limit(limit).with_for_update(of=table, skip_locked=True)
    return [JobSchedule(**row) for row in tx.execute(locked).mappings()]


def list_lags(tx: Tx, limit: int) -> list[JobLag]:
    """Return the lags of the running jobs that have a `max-lag`, by the ids of the jobs."""
    oldest = (
        select(func.min(table_changes.c.changed_at))
        .where(table_changes.c.job_id == table.c.job_id)
        .correlate(table)
        .scalar_subquery()
    )
    query = (
        select(jobs.c.owner, jobs.c.name, seconds_since(oldest).label("lag"), table.c.max_lag)
        .join_from(table, jobs, jobs.c.id == table.c.job_id)
        .where(table.c.max_lag.is_not(None), jobs.c.state == JobState.RUNNING)
        .order_by(table.c.job_id)
        .limit(limit)
    )
    rows = tx.execute(query).mappings()
    return [JobLag(**{**row, "lag": max(0.0, row["lag"] or 0.0)}) for row in rows]
