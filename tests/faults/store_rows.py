"""What the store and its model are compared by: one row for each session and statement."""

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
).where(_SE.id.in_(bindparam("mine", expanding=True)))
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
    .where(_ST.session_id.in_(bindparam("mine", expanding=True)))
)


def stored(tx: Tx, session_ids: list[str]) -> set[tuple[Any, ...]]:
    """The rows of these sessions, as the store has them."""
    mine = {"mine": session_ids}
    return {tuple(row) for query in (_SESSIONS, _STATEMENTS) for row in tx.execute(query, mine)}


def modelled(sessions: Sequence[ModelSession]) -> set[tuple[Any, ...]]:
    """The rows that they must have."""
    mine = {_session_row(one) for one in sessions}
    return mine | {_statement_row(one) for all_ in sessions for one in all_.statements}


def _session_row(model: ModelSession) -> tuple[Any, ...]:
    return (
        model.id,
        model.state,
        model.epoch,
        model.starts,
        model.lease is not Lease.NONE,
        model.lease is Lease.OVER,
        model.fenced_driver is not None,
        model.handled,
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
