"""Locks on statements: who has looked at one decides before anybody else changes it."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Row, Select, bindparam, select

from headrace.model.lifecycle import StatementState
from headrace.store.database import Tx
from headrace.store.tables import sessions, statements


def lock_statement(tx: Tx, statement_id: str) -> Row[Any] | None:
    """State and session of a statement, which nobody else changes until this transaction ends."""
    return tx.execute(_lock(fenced=False), {"statement": statement_id}).one_or_none()


def lock_owned_statement(tx: Tx, statement_id: str, epoch: int) -> Row[Any] | None:
    """The same, only while the driver of that epoch has the statement, and the session too.

    From a lost driver its statements are taken later than the session.
    """
    names = {"statement": statement_id, "holder": epoch}
    return tx.execute(_lock(fenced=True), names).one_or_none()


def lock_owned_state(tx: Tx, statement_id: str, epoch: int) -> StatementState | None:
    """The state alone."""
    row = lock_owned_statement(tx, statement_id, epoch)
    return None if row is None else row.state


@cache
def _lock(*, fenced: bool) -> Select[Any]:
    query = select(statements.c.state, statements.c.session_id)
    query = query.where(statements.c.id == bindparam("statement"))
    if not fenced:
        return query.with_for_update()
    joined = query.join_from(sessions, statements, sessions.c.id == statements.c.session_id)
    return joined.where(
        statements.c.epoch == bindparam("holder"), sessions.c.epoch == bindparam("holder")
    ).with_for_update()
