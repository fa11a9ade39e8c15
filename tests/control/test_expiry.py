"""Ending what is over its time: what has changed since it was found is left alone."""

from __future__ import annotations

import pytest
from tests.support.store import new_statement, running_session

from headrace.control.expiry import Expiry
from headrace.model.lifecycle import StatementState
from headrace.store import statements
from headrace.store.database import Database


@pytest.mark.parametrize(
    ("found", "now"),
    [
        (StatementState.WAITING, StatementState.LAUNCHED),
        (StatementState.RUNNING, StatementState.WAITING),
    ],
)
def test_what_has_changed_meanwhile_is_not_out_of_time(
    store: Database, found: StatementState, now: StatementState
) -> None:
    """Taken up by a driver, or lost by one, between the look and the end."""
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, now, lease=lease)
    Expiry(store, node_id="no_1")._time_out(statement_id, found)
    with store.read() as tx:
        statement = statements.get(tx, statement_id)
    assert statement is not None
    assert statement.state is now
