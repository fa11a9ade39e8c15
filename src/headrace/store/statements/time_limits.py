"""Statements that exceed a time limit, and cancels that no driver has answered in time."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Exists, and_, exists, literal, or_, select, update

from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.session import DriverLease
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.tables import TIMED, sessions, statements


def timed_out(tx: Tx, limit: int) -> list[tuple[str, StatementState]]:
    """Return at most `limit` statements that exceed a timeout: id and state.

    Statements that are being cancelled already are not included.
    """
    waited_too_long = and_(
        statements.c.state == StatementState.WAITING,
        seconds_since(statements.c.waiting_since) > statements.c.queue_timeout_seconds,
    )
    ran_too_long = and_(
        statements.c.state == StatementState.RUNNING,
        seconds_since(statements.c.started_at) > statements.c.timeout_seconds,
    )
    query = (
        select(statements.c.id, statements.c.state)
        # The condition of the partial index, verbatim: otherwise the databases do not use it.
        .where(TIMED, or_(waited_too_long, ran_too_long))
        .order_by(statements.c.id)
        .limit(limit)
    )
    return [(row.id, row.state) for row in tx.execute(query)]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredCancel:
    """A statement that its driver has not stopped within the grace period."""

    statement_id: str
    lease: DriverLease
    alone: bool
    """Whether nothing else runs in that driver."""
    forced: bool
    """Whether the cancel may kill a driver in which other work runs."""
    noted: bool
    """Whether the reason for the delay has been stored already."""


def unanswered_cancels(tx: Tx, grace_seconds: float, limit: int) -> list[UnansweredCancel]:
    """Return at most `limit` cancels that were requested longer ago than the grace period."""
    has_other = _others_in_flight(statements.c.session_id, statements.c.id)
    query = (
        select(
            statements.c.id,
            statements.c.session_id,
            statements.c.cancel_forced,
            statements.c.cancel_note,
            sessions.c.epoch,
            or_(has_other, sessions.c.streams > 0).label("shared"),
        )
        .join_from(statements, sessions, sessions.c.id == statements.c.session_id)
        .where(
            statements.c.ended_at.is_(None),
            statements.c.state == StatementState.CANCELLING,
            statements.c.cancel_requested_at < clock(-grace_seconds),
            statements.c.epoch == sessions.c.epoch,
            sessions.c.ended_at.is_(None),
        )
        .limit(limit)
    )
    return [
        UnansweredCancel(
            statement_id=row.id,
            lease=DriverLease(row.session_id, row.epoch),
            alone=not row.shared,
            forced=row.cancel_forced,
            noted=row.cancel_note is not None,
        )
        for row in tx.execute(query)
    ]


def has_other_work(tx: Tx, session_id: str, statement_id: str) -> bool:
    """Return whether a session has statements in flight other than this one."""
    query = select(_others_in_flight(literal(session_id), literal(statement_id)))
    return bool(tx.execute(query).scalar_one())


def _others_in_flight(session_id: ColumnElement[str], statement_id: ColumnElement[str]) -> Exists:
    other = statements.alias("other")
    return exists().where(
        other.c.session_id == session_id,
        other.c.ended_at.is_(None),
        other.c.state.in_(sorted(STATEMENT.in_flight)),
        other.c.id != statement_id,
    )


def set_cancel_note(tx: Tx, statement_id: str, note: str) -> None:
    """Store why a requested cancel is not done yet."""
    cancelling = (
        statements.c.id == statement_id,
        statements.c.state == StatementState.CANCELLING,
    )
    tx.execute(update(statements).where(*cancelling).values(cancel_note=note))
