"""Expiry rechecks a statement under its lock before it times the statement out."""

from __future__ import annotations

import pytest
from tests.support.store import new_statement, running_session

from headrace.config.settings import Settings
from headrace.control.context import NodeContext
from headrace.control.expiry import Expiry
from headrace.model.lifecycle import StatementState
from headrace.store.database import Database
from headrace.store.statements import statements


@pytest.mark.parametrize(
    ("state_when_read", "current_state"),
    [
        (StatementState.WAITING, StatementState.LAUNCHED),
        (StatementState.RUNNING, StatementState.WAITING),
    ],
)
def test_a_statement_whose_state_has_changed_is_not_timed_out(
    store: Database, state_when_read: StatementState, current_state: StatementState
) -> None:
    """A driver has claimed or lost the statement between the read and the lock."""
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, current_state, lease=lease)
    context = NodeContext(store, Settings(), node_id="no_1", address="http://node.invalid")

    Expiry(context)._time_out(statement_id, state_when_read)

    with store.read() as tx:
        statement = statements.get(tx, statement_id)
    assert statement is not None
    assert statement.state is current_state
