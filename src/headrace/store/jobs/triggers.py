"""What starts the runs of jobs, apart from the clock: runs of other jobs, and changes of tables.

The transaction of an end or a change inserts a row for each job that it concerns. It locks none of
them, so that it waits for no other transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, delete, func, insert, literal, null, select, update

from headrace.model.run import JobRun, TableChange, TriggerSource, TriggerSourceKind
from headrace.model.transaction import Transaction
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import (
    job_triggers,
    jobs,
    run_statements,
    runs,
    table_changes,
    upstream_runs,
)

_NOTES = (upstream_runs, table_changes)


def save(
    tx: Tx, job_id: str, *, owner: str, sources: Collection[TriggerSource], keeps: bool
) -> None:
    """Store what starts the runs of a locked job, in place of earlier sources.

    Args:
        keeps: Whether the sources are as before, so that what they have noted still counts.
    """
    of_job = job_triggers.c.job_id == job_id
    if keeps:
        tx.execute(update(job_triggers).where(of_job).values(is_paused=False))
        wake(tx, job_id)
        return
    remove(tx, job_id)
    rows = [
        {
            "job_id": job_id,
            "kind": source.kind,
            "source_key": source.key,
            "owner": owner,
            "source": source.name,
            "is_paused": False,
        }
        for source in sources
    ]
    if rows:
        tx.execute(insert(job_triggers), rows)


def wake(tx: Tx, job_id: str) -> None:
    """Let a job take what is noted into account again."""
    for table in _NOTES:
        tx.execute(update(table).where(table.c.job_id == job_id).values(ready_at=clock()))


def pause(tx: Tx, job_id: str) -> None:
    """Let a job wait with what is noted from now on."""
    tx.execute(update(job_triggers).where(job_triggers.c.job_id == job_id).values(is_paused=True))
    for table in _NOTES:
        tx.execute(update(table).where(table.c.job_id == job_id).values(ready_at=None))


def remove(tx: Tx, job_id: str) -> None:
    """Let nothing start the runs of a job any more."""
    for table in (job_triggers, *_NOTES):
        tx.execute(delete(table).where(table.c.job_id == job_id))


def has_sources(tx: Tx, job_id: str) -> bool:
    """Return whether jobs or tables start the runs of a job."""
    query = select(job_triggers.c.job_id).where(job_triggers.c.job_id == job_id).limit(1)
    return tx.execute(query).first() is not None


def postpone(tx: Tx, job_id: str, seconds: float) -> None:
    """Let a job take what is noted, and is ready, into account after some seconds."""
    for table in _NOTES:
        change = update(table).where(table.c.job_id == job_id, table.c.ready_at <= clock())
        tx.execute(change.values(ready_at=clock(seconds)))


def remove_ends(tx: Tx, job_id: str) -> None:
    """Remove the ends of runs that are noted for a job."""
    tx.execute(delete(upstream_runs).where(upstream_runs.c.job_id == job_id))


def serialize_changes(tx: Tx, owner: str) -> None:
    """Let transactions that change which jobs of an owner start others wait for each other.

    Each of them thus sees what the one before has begun. A SQLite store has one writer at a time.
    """
    if tx.dialect == "postgresql":
        key = func.hashtextextended(f"triggers {owner}", 0)
        tx.execute(select(func.pg_advisory_xact_lock(key)))


def note_end(tx: Tx, run: JobRun) -> bool:
    """Note the end of a run for the jobs that follow its job, and for its own changes of tables.

    Return whether a job has to take something into account.
    """
    followers = select(
        job_triggers.c.job_id,
        literal(run.id),
        job_triggers.c.is_paused,
        case((job_triggers.c.is_paused, null()), else_=clock()),
    ).where(
        job_triggers.c.kind == TriggerSourceKind.JOB,
        job_triggers.c.source_key == run.name.casefold(),
        job_triggers.c.owner == run.owner,
    )
    columns = ["job_id", "run_id", "is_missed", "ready_at"]
    noted = insert(upstream_runs).from_select(columns, followers)
    has_followers = bool(tx.execute(noted.returning(upstream_runs.c.job_id)).all())
    waiting = update(table_changes).where(
        table_changes.c.job_id == run.job_id, table_changes.c.ready_at.is_(None)
    )
    has_changes = tx.execute(waiting.values(ready_at=clock())).rowcount > 0
    return has_followers or has_changes


def note_deployment(tx: Tx, job_id: str, version_id: str) -> None:
    """Note the deployment of a version as a change that its locked job has to take into account.

    A rollback can deploy a version again before a run has used its first note, which stays.
    """
    row = {"job_id": job_id, "source_key": "", "transaction_id": version_id}
    noted = select(table_changes.c.job_id).filter_by(**row)
    if tx.execute(noted).first() is None:
        tx.execute(insert(table_changes).values(**row, changed_at=clock(), ready_at=clock()))


def note_change(tx: Tx, transaction: Transaction) -> None:
    """Note a change of a table for the jobs that it starts, apart from the one that made it."""
    staged = transaction.staged
    key = f"{staged.catalog}.{staged.target}".casefold()
    writers = (
        select(runs.c.job_id)
        .join(run_statements, run_statements.c.run_id == runs.c.id)
        .where(run_statements.c.statement_id == transaction.statement_id)
    )
    concerned = select(
        job_triggers.c.job_id, literal(key), literal(transaction.id), clock(), clock()
    ).where(
        job_triggers.c.kind == TriggerSourceKind.TABLE,
        job_triggers.c.source_key == key,
        job_triggers.c.job_id.not_in(writers),
    )
    columns = ["job_id", "source_key", "transaction_id", "changed_at", "ready_at"]
    tx.execute(insert(table_changes).from_select(columns, concerned))


def list_followers(tx: Tx, owner: str, name: str) -> list[str]:
    """Return the names of the jobs that follow a job."""
    query = select(jobs.c.name).join(job_triggers, job_triggers.c.job_id == jobs.c.id)
    of_name = query.where(
        job_triggers.c.kind == TriggerSourceKind.JOB,
        job_triggers.c.source_key == name.casefold(),
        job_triggers.c.owner == owner,
    )
    return sorted(tx.execute(of_name).scalars())


def list_ready(tx: Tx, limit: int) -> list[str]:
    """Return the ids of some jobs that have to take an end or a change into account."""
    ids = list[str]()
    for table in _NOTES:
        query = select(table.c.job_id).where(table.c.ready_at <= clock())
        ids += tx.execute(query.order_by(table.c.ready_at).limit(limit)).scalars()
    return list(dict.fromkeys(ids))


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


def list_tables(tx: Tx, job_id: str) -> Sequence[Mapping[Any, Any]]:
    """Return key, name, pause and last used change of the tables that start runs of a job."""
    query = select(
        job_triggers.c.source_key,
        job_triggers.c.source,
        job_triggers.c.is_paused,
        job_triggers.c.used_transaction_id,
    ).where(job_triggers.c.job_id == job_id, job_triggers.c.kind == TriggerSourceKind.TABLE)
    return tx.execute(query).mappings().all()


def list_changes(tx: Tx, job_id: str, limit: int) -> list[TableChange]:
    """Return the changes of tables that a job has not used, the oldest first."""
    query = select(
        table_changes.c.source_key, table_changes.c.transaction_id, table_changes.c.changed_at
    ).where(table_changes.c.job_id == job_id)
    ordered = query.order_by(table_changes.c.changed_at, table_changes.c.transaction_id)
    return [TableChange(**row) for row in tx.execute(ordered.limit(limit)).mappings()]


def list_changed(tx: Tx, job_ids: Collection[str]) -> set[tuple[str, str]]:
    """Return jobs with the keys of tables whose changes they have not used yet."""
    query = select(table_changes.c.job_id, table_changes.c.source_key).distinct()
    of_jobs = query.where(table_changes.c.job_id.in_(sorted(job_ids)))
    return {(row.job_id, row.source_key) for row in tx.execute(of_jobs)}


def use_changes(tx: Tx, job_id: str, changes: Collection[TableChange]) -> None:
    """Remove changes of tables that a job has used."""
    tx.execute(delete(table_changes).where(*_of_changes(job_id, changes)))


def mark_used(tx: Tx, job_id: str, source_key: str, transaction_id: str) -> None:
    """Store the last change of a table that a run has used."""
    change = update(job_triggers).where(
        job_triggers.c.job_id == job_id,
        job_triggers.c.kind == TriggerSourceKind.TABLE,
        job_triggers.c.source_key == source_key,
    )
    tx.execute(change.values(used_transaction_id=transaction_id))


def wait_with_changes(
    tx: Tx, job_id: str, changes: Collection[TableChange], seconds: float | None
) -> None:
    """Let a job wait with changes: for some seconds, or, without them, until its start."""
    ready_at = null() if seconds is None else clock(seconds)
    change = update(table_changes).where(*_of_changes(job_id, changes))
    tx.execute(change.values(ready_at=ready_at))


def _of_changes(job_id: str, changes: Collection[TableChange]) -> list[ColumnElement[bool]]:
    ids = {each.transaction_id for each in changes}
    return [table_changes.c.job_id == job_id, table_changes.c.transaction_id.in_(ids)]
