"""Statements whose time is over, by the database's clock."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Exists, and_, exists, literal, or_, select, update

from headrace.model.lifecycle import IN_FLIGHT, StatementState
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import TIMED, sessions, statements


def timed_out(tx: Tx, limit: int) -> list[tuple[str, StatementState]]:
    """Statements that have run, or waited, for longer than they may: id and state.

    Those that are being cancelled already are left out.
    """
    too_long_in_line = and_(
        statements.c.state == StatementState.WAITING,
        statements.c.created_at < clock(-statements.c.queue_seconds),
    )
    too_long_at_work = and_(
        statements.c.state == StatementState.RUNNING,
        statements.c.started_at < clock(-statements.c.timeout_seconds),
    )
    query = (
        select(statements.c.id, statements.c.state)
        # The words of the partial index, so that both databases use it.
        .where(TIMED, or_(too_long_in_line, too_long_at_work))
        .order_by(statements.c.id)
        .limit(limit)
    )
    return [(row.id, row.state) for row in tx.execute(query)]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredCancel:
    """A statement whose driver has not stopped it within the grace period."""

    statement_id: str
    session_id: str
    epoch: int
    alone: bool
    """Whether nothing else runs in that driver."""
    forced: bool
    noted: bool
    """Whether it is known already why it is not done."""


def unanswered_cancels(tx: Tx, grace_seconds: float, limit: int) -> list[UnansweredCancel]:
    """Statements whose cancel was asked for longer ago than the grace period."""
    neighbour = _others(statements.c.session_id, statements.c.id)
    query = (
        select(
            statements.c.id,
            statements.c.session_id,
            statements.c.cancel_forced,
            statements.c.cancel_note,
            sessions.c.epoch,
            or_(neighbour, sessions.c.streams > 0).label("shared"),
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
            session_id=row.session_id,
            epoch=row.epoch,
            alone=not row.shared,
            forced=row.cancel_forced,
            noted=row.cancel_note is not None,
        )
        for row in tx.execute(query)
    ]


def has_other_work(tx: Tx, session_id: str, statement_id: str) -> bool:
    """Whether a session's driver has statements in hand beside that one."""
    beside = select(_others(literal(session_id), literal(statement_id)))
    return bool(tx.execute(beside).scalar_one())


def _others(session_id: ColumnElement[str], statement_id: ColumnElement[str]) -> Exists:
    other = statements.alias("other")
    return exists().where(
        other.c.session_id == session_id,
        other.c.ended_at.is_(None),
        other.c.state.in_(sorted(IN_FLIGHT)),
        other.c.id != statement_id,
    )


def set_cancel_note(tx: Tx, statement_id: str, words: str) -> None:
    """Keep why a cancel is not done yet."""
    asked = update(statements).where(
        statements.c.id == statement_id, statements.c.state == StatementState.CANCELLING
    )
    tx.execute(asked.values(cancel_note=words))
