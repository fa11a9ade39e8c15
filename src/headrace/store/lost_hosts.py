"""Drivers on hosts that no node can reach: when a session may continue without them.

No backend can confirm the end of such a driver. The session may continue if the driver cannot
change files or tables, if the driver must have ended itself, or if an operator has confirmed its
end.
"""

from __future__ import annotations

from sqlalchemy import exists, or_, select

from headrace.model.lifecycle import StatementState
from headrace.model.session import DriverLease
from headrace.model.statement import JOB_WRITE
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.stream_queries import HAS_LIVE_QUERY
from headrace.store.tables import sessions, statements, transactions

_IN_FLIGHT = (StatementState.LAUNCHED, StatementState.RUNNING, StatementState.CANCELLING)


def may_continue_without(
    tx: Tx, lost: DriverLease, *, orphan_seconds: float, end_seconds: float
) -> bool:
    """Return whether a session may continue although no backend confirms the end of its driver.

    Args:
        lost: The driver, fenced or not.
        orphan_seconds: Time without an accepted renewal after which a driver ends itself.
        end_seconds: Longest time that it takes to do so.
    """
    has_ended_itself = sessions.c.last_update_time < clock(-orphan_seconds - end_seconds)
    writing_statement = exists().where(
        statements.c.session_id == sessions.c.id,
        statements.c.state.in_(_IN_FLIGHT),
        or_(statements.c.is_query.is_(False), statements.c.command == JOB_WRITE),
    )
    # A driver also works on transactions of other sessions, which it recovers.
    open_transaction = exists().where(
        transactions.c.session_id == sessions.c.id,
        transactions.c.epoch == lost.epoch,
        transactions.c.ended_at.is_(None),
    )
    confirmed = nodes.is_confirmed_gone(sessions.c.launched_by, sessions.c.last_update_time)
    row = tx.execute(
        select(
            has_ended_itself.label("ended"),
            sessions.c.streams,
            HAS_LIVE_QUERY.label("has_query"),
            sessions.c.fenced_driver,
            writing_statement.label("writes"),
            open_transaction.label("publishes"),
            confirmed.label("confirmed"),
        ).where(sessions.c.id == lost.session_id)
    ).one_or_none()
    if row is None or row.ended or row.confirmed:
        return True
    # Fencing a driver resets the number of streams in its session.
    streams = row.streams if row.fenced_driver is None else row.fenced_driver.streams
    return not (row.writes or row.publishes or streams or row.has_query)
