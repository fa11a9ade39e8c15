"""The last snapshot of each session, from which a new driver restores the session."""

from __future__ import annotations

from sqlalchemy import delete, select, update

from headrace.model.snapshot import Snapshot
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import snapshots


def save(tx: Tx, session_id: str, snapshot: Snapshot) -> None:
    """Replace the snapshot of a session.

    The transaction must have locked a statement that the session's driver owns: this fences the
    write.
    """
    values = {"snapshot": snapshot, "taken_at": clock()}
    of_session = snapshots.c.session_id == session_id
    if not tx.execute(update(snapshots).where(of_session).values(values)).rowcount:
        tx.execute(snapshots.insert().values(session_id=session_id, **values))


def get(tx: Tx, session_id: str) -> Snapshot | None:
    """Return the last snapshot, or None if nothing has changed since the session started."""
    query = select(snapshots.c.snapshot).where(snapshots.c.session_id == session_id)
    snapshot: Snapshot | None = tx.execute(query).scalar_one_or_none()
    return snapshot


def discard(tx: Tx, session_id: str) -> None:
    """Delete the snapshot of a session that has ended."""
    tx.execute(delete(snapshots).where(snapshots.c.session_id == session_id))
