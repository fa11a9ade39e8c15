"""Contract of executions: what a driver reports about an ended statement stays with it."""

from __future__ import annotations

import pytest
from sqlalchemy import delete
from tests.support.executions import make_execution
from tests.support.store import new_session, new_statement, running_session

from headrace.model.execution import StatementExecution
from headrace.model.ids import new_id
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.session import DriverLease
from headrace.store.database import Database
from headrace.store.statements import executions, statement_transitions
from headrace.store.tables import events, statements

FIRST = make_execution("first \N{GREEN APPLE}")


def end_statement(
    store: Database, lease: DriverLease, state: StatementState = StatementState.SUCCESS
) -> str:
    """Insert a statement that a driver has run to its end. Return its id."""
    statement_id = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    with store.write("test") as tx:
        assert statement_transitions.transition(
            tx, statement_id, state, actor="driver", lease=lease
        )
    return statement_id


def save(store: Database, lease: DriverLease, *ids: str, plan: str = FIRST.plan or "") -> int:
    with store.write("test") as tx:
        reported = FIRST.model_copy(update={"plan": plan})
        return executions.save(tx, lease, dict.fromkeys(ids, reported))


def find(store: Database, statement_id: str) -> StatementExecution | None:
    with store.read() as tx:
        return executions.find(tx, statement_id)


def test_the_first_execution_of_an_ended_statement_stays(store: Database) -> None:
    lease = running_session(store)
    ended = [
        end_statement(store, lease, state)
        for state in (StatementState.SUCCESS, StatementState.FAILED)
    ]
    assert find(store, ended[0]) is None
    assert save(store, lease, *ended) == 2
    assert save(store, lease, ended[0], plan="second") == 0
    assert [find(store, statement_id) for statement_id in ended] == [FIRST] * 2


@pytest.mark.parametrize("state", sorted(set(StatementState) - STATEMENT.terminal))
def test_a_statement_that_has_not_ended_has_no_execution(
    store: Database, state: StatementState
) -> None:
    lease = running_session(store)
    statement_id = new_statement(store, lease.session_id, state, lease=lease)
    assert save(store, lease, statement_id) == 0
    assert find(store, statement_id) is None


def test_only_the_driver_that_has_run_a_statement_saves_its_execution(store: Database) -> None:
    lease = running_session(store)
    statement_id = end_statement(store, lease)
    for stranger in (
        running_session(store),
        DriverLease(lease.session_id, lease.epoch + 1),
        DriverLease(new_session(store), lease.epoch),
    ):
        assert save(store, stranger, statement_id, new_id("st")) == 0
    assert save(store, lease, new_id("st")) == 0
    assert find(store, statement_id) is None


def test_a_node_of_an_older_version_can_delete_a_statement_with_an_execution(
    store: Database,
) -> None:
    lease = running_session(store)
    statement_id = end_statement(store, lease)
    assert save(store, lease, statement_id) == 1
    with store.write("test") as tx:
        tx.execute(delete(events).where(events.c.entity_id == statement_id))
        tx.execute(delete(statements).where(statements.c.id == statement_id))
    assert find(store, statement_id) is None
