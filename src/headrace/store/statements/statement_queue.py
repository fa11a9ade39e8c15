"""The queue of a session: its waiting statements, counted and ended together.

A queue may hold thousands of statements. They end in chunks, each with one update, so that no
transaction holds the store for long.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, exists, func, select, update

from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import CancelReason, StatementEnd
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import session_topic, statement_topic
from headrace.store.statements.statement_queries import END_COLUMNS
from headrace.store.streams import stream_queries, stream_transitions, views
from headrace.store.tables import statements, transactions

CHUNK = 200
"""Largest number of statements that one update ends."""

_IN_QUEUE = (
    statements.c.session_id == bindparam("session"),
    statements.c.ended_at.is_(None),
    statements.c.state.in_(sorted(STATEMENT.queued)),
)
# The table of such a statement may be visible already: each of these statements ends alone.
_HAS_TABLE = exists().where(
    transactions.c.statement_id == statements.c.id, transactions.c.ended_at.is_(None)
)
_QUEUED = (
    select(statements.c.id, statements.c.state)
    .where(*_IN_QUEUE, ~_HAS_TABLE)
    .order_by(statements.c.ordinal)
)
_FIRST = _QUEUED.limit(1)
_CHUNK = _QUEUED.limit(CHUNK).with_for_update(of=statements)
_OLDEST = select(func.min(statements.c.ordinal)).where(*_IN_QUEUE)
# Their statements run one after the other: each needs the success of the one before.
_STOPPED = select(statements.c.id).where(
    statements.c.session_id == bindparam("session"),
    statements.c.ordinal == _OLDEST.scalar_subquery() - 1,
    statements.c.state.in_(sorted(STATEMENT.terminal - {StatementState.SUCCESS})),
)
_OF_CONNECTIONS = select(statements.c.id).where(*_IN_QUEUE, statements.c.connection_id.is_not(None))
_COUNT = select(func.count()).select_from(statements).where(*_IN_QUEUE)


def is_full(tx: Tx, session_id: str, *, next_ordinal: int, limit: int) -> bool:
    """Return whether at least `limit` statements of a session wait.

    Args:
        next_ordinal: Number of statements that the session has accepted so far.
    """
    if next_ordinal < limit:
        return False
    names = {"session": session_id}
    oldest: int | None = tx.execute(_OLDEST, names).scalar_one()
    # Statements behind the oldest may have ended, so count them only if there could be too many.
    if oldest is None or next_ordinal - oldest < limit:
        return False
    count: int = tx.execute(_COUNT, names).scalar_one()
    return count >= limit


def exist(tx: Tx, session_id: str) -> bool:
    """Return whether a statement waits that `cancel_chunk` would cancel."""
    return tx.execute(_FIRST, {"session": session_id}).first() is not None


def is_stopped(tx: Tx, session_id: str) -> bool:
    """Return whether no further statement of a batch session runs, because one has not succeeded.

    Return False if no statement waits.
    """
    return tx.execute(_STOPPED, {"session": session_id}).first() is not None


def list_of_connections(tx: Tx, session_id: str) -> list[str]:
    """Return the waiting statements of a session that run in connections."""
    return list(tx.execute(_OF_CONNECTIONS, {"session": session_id}).scalars())


def cancel_chunk(tx: Tx, session_id: str, *, actor: str, reason: CancelReason) -> int:
    """Cancel the oldest waiting statements of a session. Return their number, at most CHUNK."""
    requested = {"cancel_requested_at": clock(), "cancel_reason": reason, "cancel_forced": False}
    detail = {"reason": reason}
    return _end_chunk(
        tx, session_id, StatementState.CANCELLED, requested, actor=actor, detail=detail
    )


def fail_all(tx: Tx, session_id: str, *, actor: str, failure: Failure) -> int:
    """Fail all waiting statements of a session. Return their number."""
    count = 0
    values = {"failure": failure}
    while ended := _end_chunk(
        tx, session_id, StatementState.FAILED, values, actor=actor, failure=failure
    ):
        count += ended
    return count


def _end_chunk(
    tx: Tx,
    session_id: str,
    target: StatementState,
    values: dict[str, Any],
    *,
    actor: str,
    detail: dict[str, Any] | None = None,
    failure: Failure | None = None,
) -> int:
    """End the oldest waiting statements of a session that have no table transaction."""
    rows = tx.execute(_CHUNK, {"session": session_id}).all()
    if not rows:
        return 0
    ids = [row.id for row in rows]
    is_queued = statements.c.state.in_(sorted(STATEMENT.queued))
    change = update(statements).where(statements.c.id.in_(ids), is_queued)
    change = change.values(state=target, ended_at=clock(), **values)
    code = None if failure is None else failure.code
    ended = tx.execute(change.returning(*END_COLUMNS)).mappings()
    tx.ends.extend(StatementEnd(outcome=target, code=code, **row) for row in ended)
    for source in sorted({row.state for row in rows}):
        with_source = [row.id for row in rows if row.state is source]
        events.append_all(
            tx,
            STATEMENT.entity,
            with_source,
            source,
            target,
            actor=actor,
            detail=detail,
            failure=failure,
        )
    for statement_id in stream_queries.starting_statements(tx, ids):
        stream_transitions.end_with_statement(
            tx, statement_id, target, actor=actor, failure=failure
        )
    for statement_id in views.creating_statements(tx, ids):
        views.end_unfinished(tx, statement_id, actor=actor)
    tx.wake(*map(statement_topic, ids), session_topic(session_id))
    return len(ids)
