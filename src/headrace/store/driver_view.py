"""What a driver's poll is answered from, in one read: it is asked for around every statement."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, bindparam, exists, select

from headrace.model.lifecycle import IN_FLIGHT, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.store.database import Tx
from headrace.store.tables import sessions, statements

_LIVE = (statements.c.session_id == sessions.c.id, statements.c.ended_at.is_(None))
_WAITS = exists().where(*_LIVE, statements.c.state == StatementState.WAITING).correlate(sessions)
_DUTY = (
    select(
        sessions.c.epoch,
        sessions.c.state.label("session_state"),
        sessions.c.parallelism,
        (and_(sessions.c.kind == SessionKind.BATCH, sessions.c.next_ordinal > 0)).label("spent"),
        _WAITS.label("waits"),
        statements.c.id,
        statements.c.state,
        statements.c.ordinal,
    )
    .outerjoin_from(sessions, statements, and_(*_LIVE, statements.c.state.in_(sorted(IN_FLIGHT))))
    .where(sessions.c.id == bindparam("session"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverView:
    """A session as its driver is concerned with it."""

    epoch: int
    state: SessionState
    parallelism: int
    """How many queries it may have in hand."""
    spent: bool
    """Whether it takes no further statement: a batch session that has had its one."""
    waits: bool
    """Whether a statement waits to be taken up."""
    in_flight: list[tuple[str, StatementState]]
    """What a driver has been given and has not ended, in order: id and state."""


def load_driver_view(tx: Tx, session_id: str) -> DriverView | None:
    """The duty of a session's driver; None when there is no such session."""
    rows = tx.execute(_DUTY, {"session": session_id}).all()
    if not rows:
        return None
    first = rows[0]
    # Sorted here: they are few, and SQLite would build a tree of its own for it.
    in_flight = sorted((row for row in rows if row.id is not None), key=lambda row: row.ordinal)
    return DriverView(
        epoch=first.epoch,
        state=first.session_state,
        parallelism=first.parallelism,
        spent=first.spent,
        waits=first.waits,
        in_flight=[(row.id, row.state) for row in in_flight],
    )
