"""The last snapshot of each session: what a new driver rebuilds it from."""

from __future__ import annotations

from sqlalchemy import delete, select, update

from headrace.model.snapshot import Snapshot
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import snapshots


def save(tx: Tx, session_id: str, snapshot: Snapshot) -> None:
    """Put a session's snapshot in the place of the one before.

    Only its driver does, within a transaction that holds one of its statements.
    """
    values = {"snapshot": snapshot, "taken_at": clock()}
    mine = snapshots.c.session_id == session_id
    if not tx.execute(update(snapshots).where(mine).values(values)).rowcount:
        tx.execute(snapshots.insert().values(session_id=session_id, **values))


def get(tx: Tx, session_id: str) -> Snapshot | None:
    """A session's last snapshot; None when nothing has changed since it was opened."""
    query = select(snapshots.c.snapshot).where(snapshots.c.session_id == session_id)
    found: Snapshot | None = tx.execute(query).scalar_one_or_none()
    return found


def discard(tx: Tx, session_id: str) -> None:
    """Forget the snapshot of a session that has ended."""
    tx.execute(delete(snapshots).where(snapshots.c.session_id == session_id))
