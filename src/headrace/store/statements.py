"""Statements in the store: submitted and looked at; changes.py changes their state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from sqlalchemy import bindparam, func, or_, select, update

from headrace.errors import SessionEnded, SessionNotFound
from headrace.model.lifecycle import SESSION, STATEMENT, SessionState, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import NewStatement, Statement
from headrace.store import results
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.statement_transitions import record
from headrace.store.tables import results as results_table
from headrace.store.tables import sessions, statements

_ENTITY = "statement"
_LIVE = statements.c.ended_at.is_(None)
_TAKING = sorted(SESSION.live - {SessionState.CLOSING})

_GIVEN = [field.name for field in fields(NewStatement)]
_UNTOUCHED: dict[str, Any] = {
    "attempts": 0,
    "cancel_forced": False,
    **dict.fromkeys(
        field.name
        for field in fields(Statement)
        if field.name
        not in {*_GIVEN, "attempts", "cancel_forced", "ordinal", "state", "created_at"}
    ),
}
"""What a statement is before anybody has taken it up."""

# SQL that every statement runs is built once: building it takes longer than running it.
_SELECT = select(
    *statements.c, *(column.label(f"result_{column.name}") for column in results.INFO_COLUMNS)
).outerjoin_from(statements, results_table)
_GET = _SELECT.where(statements.c.id == bindparam("statement"))
_INSERT = (
    statements.insert()
    .values(attempts=0, cancel_forced=False, created_at=clock())
    .returning(statements.c.created_at)
)
_TAKE_ORDINAL = (
    update(sessions)
    .where(
        sessions.c.id == bindparam("session"),
        sessions.c.state.in_(_TAKING),
        # A batch session is for one statement.
        or_(sessions.c.kind != SessionKind.BATCH, sessions.c.next_ordinal == 0),
    )
    .values(next_ordinal=sessions.c.next_ordinal + 1, last_used_at=clock())
    .returning(sessions.c.next_ordinal)
)
_LIVE_IDS = (
    select(statements.c.id)
    .where(statements.c.session_id == bindparam("session"), _LIVE)
    .order_by(statements.c.ordinal)
)


def insert(tx: Tx, new: NewStatement, *, actor: str) -> Statement:
    """Make a statement that waits for its session's driver.

    Raises SessionNotFound, or SessionEnded when the session takes no more.
    """
    row = {name: getattr(new, name) for name in _GIVEN}
    row.update(ordinal=_next_ordinal(tx, new.session_id), state=STATEMENT.initial)
    created_at = tx.execute(_INSERT, row).scalar_one()
    record(tx, new.id, new.session_id, None, STATEMENT.initial, actor=actor)
    return Statement(**_UNTOUCHED | row, created_at=created_at)


def _next_ordinal(tx: Tx, session_id: str) -> int:
    following: int | None = tx.execute(_TAKE_ORDINAL, {"session": session_id}).scalar_one_or_none()
    if following is not None:
        return following - 1
    query = select(sessions.c.state, sessions.c.kind).where(sessions.c.id == session_id)
    known = tx.execute(query).one_or_none()
    if known is None:
        raise SessionNotFound(f"There is no session {session_id}.")
    if known.state in _TAKING:
        raise SessionEnded(f"Session {session_id} is a batch session: it takes one statement.")
    raise SessionEnded(f"Session {session_id} is {known.state} and takes no more statements.")


def get(tx: Tx, statement_id: str) -> Statement | None:
    """The statement of that id, with what is known of its result."""
    row = tx.execute(_GET, {"statement": statement_id}).one_or_none()
    return None if row is None else _statement(row)


def page(
    tx: Tx,
    *,
    owner: str | None = None,
    session: str | None = None,
    states: Collection[StatementState] | None = None,
    before: str | None = None,
    limit: int = 100,
) -> list[Statement]:
    """At most `limit` statements, newest first; `before` is the id of the last one seen."""
    query = _SELECT
    if owner is not None:
        query = query.where(statements.c.owner == owner)
    if session is not None:
        query = query.where(statements.c.session_id == session)
    if states is not None:
        query = query.where(statements.c.state.in_(states))
        if STATEMENT.terminal.isdisjoint(states):
            query = query.where(_LIVE)
        elif STATEMENT.live.isdisjoint(states):
            query = query.where(statements.c.ended_at.is_not(None))
    if before is not None:
        query = query.where(statements.c.id < before)
    query = query.order_by(statements.c.id.desc()).limit(limit)
    return [_statement(row) for row in tx.execute(query)]


def live_ids(tx: Tx, session_id: str) -> list[str]:
    """The session's statements that have not ended, in order."""
    return list(tx.execute(_LIVE_IDS, {"session": session_id}).scalars())


def active_count(tx: Tx) -> int:
    """How many statements have not ended, in the whole store."""
    count: int = tx.execute(select(func.count()).select_from(statements).where(_LIVE)).scalar_one()
    return count


def _statement(row: Any) -> Statement:
    values = iter(row)
    known = {column.name: next(values) for column in statements.c}
    result = {column.name: next(values) for column in results.INFO_COLUMNS}
    return Statement(**known, result=results.info(result))
