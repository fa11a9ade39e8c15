"""Rows by which the store is compared with its model: one for each session and statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, false, func, select
from tests.faults.store_model import Lease, ModelSession, ModelStatement

from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import results as results_table
from headrace.store.tables import sessions as sessions_table
from headrace.store.tables import statements as statements_table

_SE, _ST, _RE = sessions_table.c, statements_table.c, results_table.c
_SESSIONS = select(
    _SE.id,
    _SE.state,
    _SE.epoch,
    _SE.starts,
    _SE.lease_until.is_not(None),
    func.coalesce(_SE.lease_until < clock(), false()),
    _SE.fenced_driver.is_not(None),
    _SE.handle.is_not(None),
    _SE.ended_at.is_not(None),
).where(_SE.id.in_(bindparam("sessions", expanding=True)))
_STATEMENTS = (
    select(
        _ST.id,
        _ST.state,
        _ST.epoch,
        _ST.attempts,
        _ST.cancel_reason,
        _ST.cancel_forced,
        _RE.statement_id.is_not(None),
        _ST.ended_at.is_not(None),
    )
    .outerjoin_from(statements_table, results_table)
    .where(_ST.session_id.in_(bindparam("sessions", expanding=True)))
)


def read_rows(tx: Tx, session_ids: list[str]) -> set[tuple[Any, ...]]:
    """Return the rows of these sessions and their statements from the store."""
    names = {"sessions": session_ids}
    return {tuple(row) for query in (_SESSIONS, _STATEMENTS) for row in tx.execute(query, names)}


def expected_rows(sessions: Sequence[ModelSession]) -> set[tuple[Any, ...]]:
    """Return the rows that the store must have."""
    statements = [statement for session in sessions for statement in session.statements]
    return {*map(_session_row, sessions), *map(_statement_row, statements)}


def _session_row(model: ModelSession) -> tuple[Any, ...]:
    return (
        model.id,
        model.state,
        model.epoch,
        model.starts,
        model.lease is not Lease.NONE,
        model.lease is Lease.EXPIRED,
        model.fenced_driver is not None,
        model.has_handle,
        not model.live,
    )


def _statement_row(model: ModelStatement) -> tuple[Any, ...]:
    return (
        model.id,
        model.state,
        model.epoch,
        model.attempts,
        model.reason,
        model.forced,
        model.has_result,
        not model.live,
    )
