"""How far statements are. No change of state: it leaves no event and wakes nobody."""

from __future__ import annotations

from sqlalchemy import bindparam, update

from headrace.model.lifecycle import IN_FLIGHT
from headrace.model.progress import Progress
from headrace.store.database import Tx
from headrace.store.tables import statements

_KEEP = (
    update(statements)
    .where(
        statements.c.id == bindparam("statement"),
        statements.c.session_id == bindparam("session"),
        statements.c.epoch == bindparam("holder"),
        statements.c.state.in_(sorted(IN_FLIGHT)),
    )
    .values(progress=bindparam("made"))
)


def save(tx: Tx, session_id: str, epoch: int, made: dict[str, Progress]) -> int:
    """Keep the progress of a driver's statements; returns of how many it had any in hand."""
    names = {"session": session_id, "holder": epoch}
    return sum(
        tx.execute(_KEEP, {**names, "statement": one, "made": progress}).rowcount
        for one, progress in made.items()
    )
