"""Savepoints: verified copies of the checkpoints of jobs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import insert, select, update

from headrace.model.deployment import Savepoint
from headrace.model.job import SavepointContent
from headrace.model.lifecycle import SAVEPOINT, SavepointState
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.job_tables import savepoints as table

_ENTITY = "savepoint"


def insert_savepoint(
    tx: Tx, savepoint_id: str, job_id: str, *, version: int, run: str, place: str, actor: str
) -> None:
    """Insert a savepoint that is being copied."""
    row = {
        "id": savepoint_id,
        "job_id": job_id,
        "version": version,
        "run": run,
        "place": place,
        "state": SAVEPOINT.initial,
    }
    tx.execute(insert(table).values(created_at=clock()), row)
    detail = {"job": job_id, "version": version, "place": place}
    events.append(tx, _ENTITY, savepoint_id, None, SAVEPOINT.initial, actor=actor, detail=detail)


def get(tx: Tx, savepoint_id: str) -> Savepoint | None:
    """Return a savepoint, or None if there is no such savepoint."""
    row = tx.execute(select(table).where(table.c.id == savepoint_id)).mappings().first()
    return None if row is None else Savepoint(**row)


def list_of_jobs(tx: Tx, job_ids: Collection[str]) -> list[Savepoint]:
    """Return the savepoints of jobs that are not pruned, newest first."""
    query = select(table).where(table.c.job_id.in_(job_ids), table.c.ended_at.is_(None))
    rows = tx.execute(query.order_by(table.c.id.desc())).mappings()
    return [Savepoint(**row) for row in rows]


def move(
    tx: Tx,
    savepoint_id: str,
    target: SavepointState,
    *,
    actor: str,
    content: SavepointContent | None = None,
) -> bool:
    """Change the state of a savepoint, with its event. Return whether the lifecycle allows it."""
    query = select(table.c.state).where(table.c.id == savepoint_id).with_for_update()
    source = tx.execute(query).scalar_one_or_none()
    if source is None or not SAVEPOINT.allows(source, target):
        return False
    values: dict[str, Any] = {"state": target}
    if content is not None:
        values["content"] = content
    if target in SAVEPOINT.terminal:
        values["ended_at"] = clock()
    tx.execute(update(table).where(table.c.id == savepoint_id).values(values))
    events.append(tx, _ENTITY, savepoint_id, source, target, actor=actor)
    return True
