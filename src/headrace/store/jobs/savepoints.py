"""Savepoints: verified copies of the checkpoints of jobs."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import insert, select

from headrace.model.deployment import Savepoint
from headrace.model.job import SavepointContent
from headrace.model.lifecycle import SAVEPOINT, SavepointState
from headrace.store import events
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.tables import savepoints as table
from headrace.store.transitions import Transitions

_TRANSITIONS = Transitions(SAVEPOINT, table)


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
    events.append_creation(tx, SAVEPOINT, savepoint_id, actor=actor, detail=detail)


def get(tx: Tx, savepoint_id: str) -> Savepoint | None:
    """Return a savepoint, or None if there is no such savepoint."""
    row = tx.execute(select(table).where(table.c.id == savepoint_id)).mappings().first()
    return None if row is None else Savepoint(**row)


def list_of_jobs(tx: Tx, job_ids: Collection[str]) -> list[Savepoint]:
    """Return the savepoints of jobs that are not pruned, newest first."""
    query = select(table).where(table.c.job_id.in_(job_ids), table.c.ended_at.is_(None))
    rows = tx.execute(query.order_by(table.c.created_at.desc(), table.c.id.desc())).mappings()
    return [Savepoint(**row) for row in rows]


def list_old(tx: Tx, job_id: str, *, kept: int, seconds: float) -> list[Savepoint]:
    """Return the savepoints of a job that are not kept any more, oldest first.

    Args:
        kept: Number of the newest verified savepoints that stay in any case.
        seconds: Age up to which the others stay too.

    While a savepoint of a run stays, the newest one of the run stays as well: if it is broken, it
    says that the end of the run was not saved.
    """
    listed = list_of_jobs(tx, [job_id])
    verified = [each.id for each in listed if each.state is SavepointState.VERIFIED][:kept]
    aged = select(table.c.id).where(
        table.c.job_id == job_id,
        table.c.ended_at.is_(None),
        table.c.state != SavepointState.COPYING,
        seconds_since(table.c.created_at) > seconds,
    )
    old = set(tx.execute(aged).scalars()) - set(verified)
    newest = {(each.version, each.run): each.id for each in reversed(listed)}
    old -= {newest[each.version, each.run] for each in listed if each.id not in old}
    return [each for each in reversed(listed) if each.id in old]


def list_at(tx: Tx, places: Collection[str]) -> list[str]:
    """Return the ids of the savepoints at these places that are not pruned."""
    query = select(table.c.id).where(table.c.place.in_(places), table.c.ended_at.is_(None))
    return list(tx.execute(query).scalars())


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
    values = {} if content is None else {"content": content}
    return source is not None and _TRANSITIONS.apply(
        tx, savepoint_id, source, target, actor=actor, values=values
    )
