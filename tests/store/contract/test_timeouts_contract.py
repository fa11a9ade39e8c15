"""Contract of timeouts: idle and aged sessions, timeouts, and cancels without an answer."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update
from tests.support.store import new_statement, running_session

from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import NewSession
from headrace.model.statement import CancelReason
from headrace.store import tables
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import lease_renewals, sessions
from headrace.store.statements import statement_transitions, statements, time_limits

MINUTE = 60.0
ENDLESS = 999_999_999 * 86_400.0


def _set(store: Database, table: Any, row: str, **values: Any) -> None:
    with store.write("test") as tx:
        tx.execute(update(table).where(table.c.id == row).values(**values))


def _backdate(store: Database, table: Any, row: str, column: str, seconds: float) -> None:
    """Set an instant of a row to `seconds` ago, by the database's clock."""
    _set(store, table, row, **{column: clock(-seconds)})


def _idle_ids(store: Database) -> list[str]:
    with store.read() as tx:
        return [session.id for session in sessions.list_to_close(tx, sessions.IDLE, 10)]


def test_a_session_is_idle_after_idle_seconds_without_use(store: Database) -> None:
    lease = running_session(store)
    _backdate(store, tables.sessions, lease.session_id, "started_at", 2 * MINUTE)
    assert _idle_ids(store) == []  # idle_seconds is None: never idle
    _set(store, tables.sessions, lease.session_id, idle_seconds=MINUTE)
    assert _idle_ids(store) == [lease.session_id]
    # A submit counts as use. A live statement keeps the session busy however old it is.
    statement_id = new_statement(store, lease.session_id)
    assert _idle_ids(store) == []
    _backdate(store, tables.sessions, lease.session_id, "last_used_at", 2 * MINUTE)
    assert _idle_ids(store) == []
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, StatementState.SUCCESS, actor="test"
        )
    assert _idle_ids(store) == [lease.session_id]
    with store.read() as tx:
        assert sessions.must_close(tx, sessions.IDLE, lease.session_id)


def test_a_renewal_counts_a_live_statement_as_use(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id)
    _backdate(store, tables.sessions, lease.session_id, "last_used_at", 2 * MINUTE)
    _set(store, tables.sessions, lease.session_id, idle_seconds=MINUTE)
    with store.write("test") as tx:
        lease_renewals.renew(tx, lease, 60)
        assert statement_transitions.transition(
            tx, statement_id, StatementState.CANCELLED, actor="test"
        )
    assert _idle_ids(store) == []
    _backdate(store, tables.sessions, lease.session_id, "last_used_at", 2 * MINUTE)
    with store.write("test") as tx:
        lease_renewals.renew(tx, lease, 60)
    assert _idle_ids(store) == [lease.session_id]


def test_a_session_with_a_stream_is_never_idle(store: Database) -> None:
    lease = running_session(store)
    _backdate(store, tables.sessions, lease.session_id, "started_at", 2 * MINUTE)
    _set(store, tables.sessions, lease.session_id, idle_seconds=MINUTE)
    with store.write("test") as tx:
        lease_renewals.renew(tx, lease, 60, streams=1)
    assert _idle_ids(store) == []
    with store.write("test") as tx:
        lease_renewals.renew(tx, lease, 60, streams=0)
    assert _idle_ids(store) == [lease.session_id]


def test_a_session_without_a_driver_is_not_idle(store: Database) -> None:
    with store.write("test") as tx:
        new = NewSession(id=new_id("se"), owner="ada", idle_seconds=0.0)
        sessions.insert(tx, new, actor="ada")
    assert _idle_ids(store) == []


def test_a_session_is_aged_after_its_ttl_even_if_it_is_busy(store: Database) -> None:
    lease = running_session(store)
    new_statement(store, lease.session_id)
    _backdate(store, tables.sessions, lease.session_id, "created_at", 2 * MINUTE)

    def aged_ids() -> list[str]:
        with store.read() as tx:
            return [session.id for session in sessions.list_to_close(tx, sessions.AGED, 10)]

    assert aged_ids() == []
    _set(store, tables.sessions, lease.session_id, ttl_seconds=3 * MINUTE)
    assert aged_ids() == []
    _set(store, tables.sessions, lease.session_id, ttl_seconds=MINUTE)
    assert aged_ids() == [lease.session_id]
    with store.write("test") as tx:
        assert sessions.transition(tx, lease.session_id, SessionState.CLOSING, actor="test")
    assert aged_ids() == []


def test_the_queue_timeout_counts_from_the_wait_and_the_timeout_from_the_start(
    store: Database,
) -> None:
    lease = running_session(store)
    waiting = new_statement(store, lease.session_id)
    running = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    for statement_id in (waiting, running):
        _backdate(store, tables.statements, statement_id, "waiting_since", 5 * MINUTE)
        _set(store, tables.statements, statement_id, timeout_seconds=MINUTE)

    def find_timed_out() -> list[tuple[str, StatementState]]:
        with store.read() as tx:
            return time_limits.timed_out(tx, 10)

    assert find_timed_out() == []
    _backdate(store, tables.statements, running, "started_at", 2 * MINUTE)
    assert find_timed_out() == [(running, StatementState.RUNNING)]
    for statement_id in (waiting, running):
        _set(
            store,
            tables.statements,
            statement_id,
            timeout_seconds=None,
            queue_timeout_seconds=MINUTE,
        )
    assert find_timed_out() == [(waiting, StatementState.WAITING)]
    with store.write("test") as tx:
        statement_transitions.request_cancel(tx, running, actor="test", reason=CancelReason.TIMEOUT)
    _set(store, tables.statements, running, timeout_seconds=MINUTE)
    assert find_timed_out() == [(waiting, StatementState.WAITING)]


@pytest.mark.finding("S5")
def test_a_row_with_an_endless_time_limit_does_not_stop_the_checks_of_other_rows(
    store: Database,
) -> None:
    """Durations are bounded on input. A row that is in the store already must do no harm."""
    endless, ordinary = running_session(store), running_session(store)
    for lease, seconds in ((endless, ENDLESS), (ordinary, MINUTE)):
        session_id = lease.session_id
        statement_id = new_statement(store, session_id, StatementState.RUNNING, lease=lease)
        _set(store, tables.sessions, session_id, ttl_seconds=seconds, idle_seconds=seconds)
        _set(store, tables.statements, statement_id, timeout_seconds=seconds)
        _backdate(store, tables.sessions, session_id, "created_at", 2 * MINUTE)
        _backdate(store, tables.statements, statement_id, "started_at", 2 * MINUTE)
        waiting = new_statement(store, session_id)
        _set(store, tables.statements, waiting, queue_timeout_seconds=seconds)
    with store.read() as tx:
        assert [session.id for session in sessions.list_to_close(tx, sessions.AGED, 10)] == [
            ordinary.session_id
        ]
        assert sessions.list_to_close(tx, sessions.IDLE, 10) == []
        [(late, state)] = time_limits.timed_out(tx, 10)
        statement = statements.get(tx, late)
    assert statement is not None
    assert (statement.session_id, state) == (ordinary.session_id, StatementState.RUNNING)


def test_a_cancel_is_unanswered_after_the_grace_period(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, StatementState.CANCELLING, lease=lease)

    def find_unanswered() -> list[time_limits.UnansweredCancel]:
        with store.read() as tx:
            return time_limits.unanswered_cancels(tx, MINUTE, 10)

    assert find_unanswered() == []
    _backdate(store, tables.statements, statement_id, "cancel_requested_at", 2 * MINUTE)
    (cancel,) = find_unanswered()
    assert (cancel.statement_id, cancel.lease) == (statement_id, lease)
    assert (cancel.alone, cancel.forced, cancel.noted) == (True, False, False)
    other = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        time_limits.set_cancel_note(tx, statement_id, "because")
    (cancel,) = find_unanswered()
    assert (cancel.alone, cancel.noted) == (False, True)
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, other, StatementState.SUCCESS, actor="test")
        lease_renewals.renew(tx, lease, 60, streams=1)
    assert not find_unanswered()[0].alone
