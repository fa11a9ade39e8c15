"""What ends by itself: told by the database's clock alone, on every store."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update
from tests.support.store import new_statement, running_session

from headrace.errors import SessionEnded
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import NewSession, SessionKind
from headrace.model.statement import CancelReason, NewStatement, StatementSpec
from headrace.store import (
    node_statements,
    sessions,
    statement_transitions,
    statements,
    tables,
    timeouts,
)
from headrace.store.clock import clock
from headrace.store.database import Database

MINUTE = 60.0


def _set(store: Database, table: Any, row: str, **values: Any) -> None:
    with store.write("test") as tx:
        tx.execute(update(table).where(table.c.id == row).values(**values))


def _aged(store: Database, table: Any, row: str, column: str, seconds: float) -> None:
    """Puts an instant of a row into the past, by the database's clock."""
    _set(store, table, row, **{column: clock(-seconds)})


def _idle(store: Database) -> list[str]:
    with store.read() as tx:
        return [one.id for one in sessions.idle(tx, 10)]


def test_a_session_is_idle_after_its_time(store: Database) -> None:
    lease = running_session(store)
    _aged(store, tables.sessions, lease.session_id, "started_at", 2 * MINUTE)
    assert _idle(store) == []  # it may be idle for ever
    _set(store, tables.sessions, lease.session_id, idle_seconds=MINUTE)
    assert _idle(store) == [lease.session_id]
    # A submit makes it used, and a live statement keeps it busy however old that is.
    statement_id = new_statement(store, lease.session_id)
    assert _idle(store) == []
    _aged(store, tables.sessions, lease.session_id, "last_used_at", 2 * MINUTE)
    assert _idle(store) == []
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, StatementState.SUCCESS, actor="test"
        )
    assert _idle(store) == [lease.session_id]
    with store.read() as tx:
        assert sessions.is_idle(tx, lease.session_id)


def test_a_renewal_counts_a_live_statement_as_use(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id)
    _aged(store, tables.sessions, lease.session_id, "last_used_at", 2 * MINUTE)
    _set(store, tables.sessions, lease.session_id, idle_seconds=MINUTE)
    with store.write("test") as tx:
        sessions.renew(tx, lease, 60)
        assert statement_transitions.transition(
            tx, statement_id, StatementState.CANCELLED, actor="test"
        )
    assert _idle(store) == []
    _aged(store, tables.sessions, lease.session_id, "last_used_at", 2 * MINUTE)
    with store.write("test") as tx:
        sessions.renew(tx, lease, 60)
    assert _idle(store) == [lease.session_id]


def test_a_session_with_a_stream_is_never_idle(store: Database) -> None:
    lease = running_session(store)
    _aged(store, tables.sessions, lease.session_id, "started_at", 2 * MINUTE)
    _set(store, tables.sessions, lease.session_id, idle_seconds=MINUTE)
    with store.write("test") as tx:
        sessions.renew(tx, lease, 60, streams=1)
    assert _idle(store) == []
    with store.write("test") as tx:
        sessions.renew(tx, lease, 60, streams=0)
    assert _idle(store) == [lease.session_id]


def test_a_session_that_is_not_running_is_not_idle(store: Database) -> None:
    with store.write("test") as tx:
        new = NewSession(id=new_id("se"), owner="ada", idle_seconds=0.0)
        sessions.insert(tx, new, actor="ada")
    assert _idle(store) == []


def test_a_session_is_aged_busy_or_not(store: Database) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id)
    _aged(store, tables.sessions, lease.session_id, "created_at", 2 * MINUTE)

    def aged() -> list[str]:
        with store.read() as tx:
            return [one.id for one in sessions.aged(tx, 10)]

    assert aged() == []
    _set(store, tables.sessions, lease.session_id, ttl_seconds=3 * MINUTE)
    assert aged() == []
    _set(store, tables.sessions, lease.session_id, ttl_seconds=MINUTE)
    assert aged() == [lease.session_id]
    with store.write("test") as tx:
        assert sessions.transition(tx, lease.session_id, SessionState.CLOSING, actor="test")
    assert aged() == []


def test_overtime_is_counted_from_the_submit_while_waiting_then_from_the_start(
    store: Database,
) -> None:
    lease = running_session(store)
    waiting = new_statement(store, lease.session_id)
    running = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    for one in (waiting, running):
        _aged(store, tables.statements, one, "created_at", 5 * MINUTE)
        _set(store, tables.statements, one, timeout_seconds=MINUTE)

    def late() -> list[tuple[str, StatementState]]:
        with store.read() as tx:
            return timeouts.timed_out(tx, 10)

    assert late() == []
    _aged(store, tables.statements, running, "started_at", 2 * MINUTE)
    assert late() == [(running, StatementState.RUNNING)]
    for one in (waiting, running):
        _set(store, tables.statements, one, timeout_seconds=None, queue_timeout_seconds=MINUTE)
    assert late() == [(waiting, StatementState.WAITING)]
    with store.write("test") as tx:
        statement_transitions.request_cancel(tx, running, actor="test", reason=CancelReason.TIMEOUT)
    _set(store, tables.statements, running, timeout_seconds=MINUTE)
    assert late() == [(waiting, StatementState.WAITING)]


def test_the_first_reason_of_a_cancel_holds_and_force_may_come_later(store: Database) -> None:
    lease = running_session(store)
    one = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    for reason, force in ((CancelReason.TIMEOUT, False), (CancelReason.REQUESTED, True)):
        with store.write("test") as tx:
            state = statement_transitions.request_cancel(
                tx, one, actor="ada", reason=reason, force=force
            )
        assert state is StatementState.CANCELLING
    with store.read() as tx:
        found = statements.get(tx, one)
    assert found is not None
    assert (found.cancel_reason, found.cancel_forced) == (CancelReason.TIMEOUT, True)


def test_a_cancel_is_stuck_after_its_grace(store: Database) -> None:
    lease = running_session(store)
    one = new_statement(store, lease.session_id, StatementState.CANCELLING, lease=lease)

    def stuck() -> list[timeouts.UnansweredCancel]:
        with store.read() as tx:
            return timeouts.unanswered_cancels(tx, MINUTE, 10)

    assert stuck() == []
    _aged(store, tables.statements, one, "cancel_requested_at", 2 * MINUTE)
    (found,) = stuck()
    assert (found.statement_id, found.lease) == (one, lease)
    assert (found.alone, found.forced, found.noted) == (True, False, False)
    other = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        timeouts.set_cancel_note(tx, one, "because")
    (found,) = stuck()
    assert (found.alone, found.noted) == (False, True)
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, other, StatementState.SUCCESS, actor="test")
        sessions.renew(tx, lease, 60, streams=1)
    assert not stuck()[0].alone


def test_a_batch_session_takes_one_statement(store: Database) -> None:
    session_id = new_id("se")
    with store.write("test") as tx:
        new = NewSession(id=session_id, owner="ada", kind=SessionKind.BATCH)
        sessions.insert(tx, new, actor="ada")
    new_statement(store, session_id)
    with pytest.raises(SessionEnded, match="takes one statement"):
        new_statement(store, session_id)


def test_a_local_statement_keeps_its_turn(store: Database) -> None:
    lease = running_session(store)
    first = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    own = new_id("st")
    with store.write("test") as tx:
        new = NewStatement(
            id=own,
            session_id=lease.session_id,
            owner="ada",
            spec=StatementSpec(text="x", kind=SessionKind.LOCAL),
        )
        statements.insert(tx, new, actor="ada")
    last = new_statement(store, lease.session_id)

    def due() -> list[str]:
        with store.read() as tx:
            assert node_statements.runnable(tx, "se_x", 10) == []
            assert node_statements.runnable(tx, lease.session_id, 10) == node_statements.runnable(
                tx, None, 10
            )
            return node_statements.runnable(tx, None, 10)

    assert due() == []
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, first, StatementState.SUCCESS, actor="test")
        # What follows it waits for it.
        assert statement_transitions.claim_next(tx, lease) is None
    assert due() == [own]
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, own, StatementState.SUCCESS, actor="test")
        claimed = statement_transitions.claim_next(tx, lease)
    assert claimed is not None
    assert claimed.id == last
    assert due() == []
