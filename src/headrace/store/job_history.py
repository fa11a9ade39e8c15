"""Deletion of the history of jobs: ended deployments with their changes, and deleted jobs."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, Table, delete, select

from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.job_tables import (
    deployments,
    job_changes,
    job_versions,
    jobs,
    operations,
    savepoints,
)
from headrace.store.tables import events


def delete_jobs(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete at most `limit` rows of each kind that ended more than `seconds` ago.

    The versions and savepoints of a job stay for as long as the job is live. Return the numbers of
    deleted rows by kind.
    """
    deployment_ids = _choose(tx, deployments, seconds, limit)
    if deployment_ids:
        of_deployments = job_changes.c.deployment_id.in_(deployment_ids)
        change_ids = _fetch(tx, select(job_changes.c.id).where(of_deployments))
        tx.execute(delete(job_changes).where(of_deployments))
        _delete(tx, deployments, deployment_ids, change_ids)
    operation_ids = _choose(tx, operations, seconds, limit)
    if operation_ids:
        _delete(tx, operations, operation_ids)
    job_ids = _choose(tx, jobs, seconds, limit)
    if job_ids:
        savepoint_ids = _fetch(tx, select(savepoints.c.id).where(savepoints.c.job_id.in_(job_ids)))
        tx.execute(delete(job_versions).where(job_versions.c.job_id.in_(job_ids)))
        tx.execute(delete(savepoints).where(savepoints.c.job_id.in_(job_ids)))
        _delete(tx, jobs, job_ids, savepoint_ids)
    return {
        "deployments": len(deployment_ids),
        "operations": len(operation_ids),
        "jobs": len(job_ids),
    }


def _choose(tx: Tx, table: Table, seconds: float, limit: int) -> list[str]:
    """Lock the oldest ended rows, and return their ids."""
    query = select(table.c.id).where(
        table.c.ended_at.is_not(None), table.c.ended_at < clock(-seconds)
    )
    # Several nodes delete different rows.
    query = query.order_by(table.c.ended_at).limit(limit).with_for_update(skip_locked=True)
    return _fetch(tx, query)


def _delete(tx: Tx, table: Table, ids: list[str], further: list[str] | None = None) -> None:
    """Delete rows, with their events and those of further entities."""
    tx.execute(delete(events).where(events.c.entity_id.in_([*ids, *(further or ())])))
    tx.execute(delete(table).where(table.c.id.in_(ids)))


def _fetch(tx: Tx, query: Select[Any]) -> list[str]:
    return list(tx.execute(query).scalars())
