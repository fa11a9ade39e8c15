"""Contract of lost statements: what becomes of them when their driver is gone."""

from __future__ import annotations

import pytest
from tests.support.store import LOST, new_statement, running_session

from headrace.model.lifecycle import SessionState, StatementState
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_transitions, statements


@pytest.mark.parametrize("state", [StatementState.LAUNCHED, StatementState.RUNNING])
@pytest.mark.parametrize("is_query", [True, False])
def test_a_statement_with_effects_is_not_retried_and_a_query_is(
    store: Database, state: StatementState, is_query: bool
) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, state, lease=lease, is_query=is_query)
    waiting = new_statement(store, lease.session_id)

    def resolve() -> tuple[StatementState, int]:
        with store.write("test") as tx:
            takeovers.resolve_lost(tx, lease.session_id, actor="no_1", failure=LOST, max_attempts=2)
            statement = statements.get(tx, statement_id)
            other = statements.get(tx, waiting)
        assert statement is not None
        assert other is not None
        assert other.state is StatementState.WAITING
        ended = statement.state is not StatementState.WAITING
        assert statement.failure == (LOST if ended else None)
        assert (statement.started_at is None) or ended
        return statement.state, statement.attempts

    if not is_query:
        assert resolve() == (StatementState.FAILED, 1)
        return
    assert resolve() == (StatementState.WAITING, 1)
    with store.write("test") as tx:
        again = statement_transitions.claim_next(tx, lease)
    assert again is not None
    assert (again.statement.id, again.statement.attempts) == (statement_id, 2)
    assert resolve() == (StatementState.FAILED, 2)


@pytest.mark.parametrize("has_effects", [False, True])
def test_a_lost_statement_runs_again_if_it_had_no_effects(
    store: Database, has_effects: bool
) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id)
    with store.write("test") as tx:
        claimed = statement_transitions.claim_next(tx, lease, may_have_effects=False)
        if has_effects:
            statement_transitions.note_effects(tx, statement_id)
        takeovers.resolve_lost(tx, lease.session_id, actor="no_1", failure=LOST, max_attempts=2)
        lost = statements.get(tx, statement_id)
    assert claimed is not None
    assert lost is not None
    assert not claimed.statement.may_have_effects
    assert lost.state is (StatementState.FAILED if has_effects else StatementState.WAITING)
    # A driver that announces nothing may claim it next.
    assert lost.may_have_effects


def test_a_lost_statement_with_a_requested_cancel_ends_as_cancelled(store: Database) -> None:
    lease = running_session(store)
    statement_id = new_statement(
        store, lease.session_id, StatementState.CANCELLING, lease=lease, is_query=True
    )
    with store.write("test") as tx:
        takeovers.resolve_lost(tx, lease.session_id, actor="no_1", failure=LOST, max_attempts=2)
        statement = statements.get(tx, statement_id)
    assert statement is not None
    assert (statement.state, statement.failure) == (StatementState.CANCELLED, None)


def test_a_statement_that_ends_with_its_driver_gets_a_pending_hook_call(store: Database) -> None:
    """Statements that are retried, or that had no driver, get none."""
    lease = running_session(store)
    failed, cancelled, _again, _waiting = [
        new_statement(store, lease.session_id, state, lease=lease, is_query=is_query)
        for state, is_query in (
            (StatementState.RUNNING, False),
            (StatementState.CANCELLING, True),
            (StatementState.RUNNING, True),
            (StatementState.WAITING, True),
        )
    ]
    with store.write("test") as tx:
        takeovers.resolve_lost(tx, lease.session_id, actor="no_1", failure=LOST, max_attempts=2)
    with store.write("test") as tx:
        pending = [
            (call.statement_id, call.state, call.failure)
            for call in sessions.list_hook_calls(tx, lease.session_id)
        ]
        assert pending == [
            (failed, StatementState.FAILED, LOST),
            (cancelled, StatementState.CANCELLED, None),
        ]
        sessions.remove_hook_calls(tx, lease.session_id, [failed])
        assert [call.statement_id for call in sessions.list_hook_calls(tx, lease.session_id)] == [
            cancelled
        ]
        assert sessions.transition(tx, lease.session_id, SessionState.DEAD, actor="test")
        assert sessions.list_hook_calls(tx, lease.session_id) == []
