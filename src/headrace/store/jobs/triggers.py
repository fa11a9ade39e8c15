"""What starts the runs of jobs, apart from the clock: the runs of the jobs that they follow."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, case, delete, insert, literal, null, select, update

from headrace.model.run import JobRun
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import job_triggers, jobs, upstream_runs


def save(tx: Tx, job_id: str, *, owner: str, upstream: Collection[str], keeps: bool) -> None:
    """Store the jobs that a locked job follows, in place of earlier ones.

    Args:
        upstream: Names of the jobs.
        keeps: Whether runs count that the job has not used yet.
    """
    tx.execute(delete(job_triggers).where(job_triggers.c.job_id == job_id))
    rows = [
        {"job_id": job_id, "upstream_key": name.casefold(), "owner": owner, "is_paused": False}
        for name in upstream
    ]
    if rows:
        tx.execute(insert(job_triggers), rows)
    of_job = upstream_runs.c.job_id == job_id
    if keeps:
        tx.execute(update(upstream_runs).where(of_job).values(ready_at=clock()))
    else:
        tx.execute(delete(upstream_runs).where(of_job))


def pause(tx: Tx, job_id: str) -> None:
    """Let a job wait with the runs that end from now on."""
    tx.execute(update(job_triggers).where(job_triggers.c.job_id == job_id).values(is_paused=True))
    of_job = upstream_runs.c.job_id == job_id
    tx.execute(update(upstream_runs).where(of_job).values(ready_at=None))


def remove(tx: Tx, job_id: str) -> None:
    """Let a job that is deleted follow no other."""
    for table in (job_triggers, upstream_runs):
        tx.execute(delete(table).where(table.c.job_id == job_id))


def note_end(tx: Tx, run: JobRun) -> None:
    """Note the end of a run for the jobs that follow its job."""
    followers = select(
        job_triggers.c.job_id,
        literal(run.id),
        job_triggers.c.is_paused,
        case((job_triggers.c.is_paused, null()), else_=clock()),
    ).where(job_triggers.c.owner == run.owner, job_triggers.c.upstream_key == run.name.casefold())
    columns = ["job_id", "run_id", "is_missed", "ready_at"]
    tx.execute(insert(upstream_runs).from_select(columns, followers))


def list_followers(tx: Tx, owner: str, name: str) -> list[str]:
    """Return the names of the jobs that follow a job."""
    query = select(jobs.c.name).join(job_triggers, job_triggers.c.job_id == jobs.c.id)
    of_name = query.where(
        job_triggers.c.owner == owner, job_triggers.c.upstream_key == name.casefold()
    )
    return sorted(tx.execute(of_name).scalars())


def list_ready(tx: Tx, limit: int) -> list[str]:
    """Return the ids of some jobs that have to take the ends of runs into account."""
    query = select(upstream_runs.c.job_id).where(upstream_runs.c.ready_at <= clock())
    rows = tx.execute(query.order_by(upstream_runs.c.ready_at).limit(limit))
    return list(dict.fromkeys(rows.scalars()))


def use(tx: Tx, job_id: str, run_ids: Collection[str]) -> None:
    """Remove runs that a job has used."""
    tx.execute(delete(upstream_runs).where(*_of_runs(job_id, run_ids)))


def wait(tx: Tx, job_id: str, run_ids: Collection[str], seconds: float | None) -> None:
    """Let a job wait with runs: for some seconds, or, without them, for the end of another run."""
    ready_at = null() if seconds is None else clock(seconds)
    change = update(upstream_runs).where(*_of_runs(job_id, run_ids))
    tx.execute(change.values(ready_at=ready_at))


def _of_runs(job_id: str, run_ids: Collection[str]) -> list[ColumnElement[bool]]:
    return [upstream_runs.c.job_id == job_id, upstream_runs.c.run_id.in_(run_ids)]
