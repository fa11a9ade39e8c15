"""The state of a connection on its way to a driver, which asks for it and is a stranger."""

from __future__ import annotations

import httpx
import pytest
from sqlalchemy import null, update
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.connection import AssignedConnection
from headrace.model.ids import new_id
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry
from headrace.store.sessions import connections
from headrace.store.tables import connections as table
from headrace.store.tables import statements as statement_table

LARGE = "x" * 100_000
STATE = Snapshot(
    catalog="spark_catalog",
    namespace=["shops"],
    variables=[SnapshotEntry(name="v", form=EntryForm.JAVA, body=LARGE)],
)


@pytest.fixture
def node(start_node: StartNode) -> InProcessNode:
    """Serve a node of its own: statements of other tests may wait in a pool session."""
    return start_node()


@pytest.fixture
def driver(node: InProcessNode) -> ScriptedDriver:
    """Return the driver of the pool session, which has no statement."""
    first = node.submit("SELECT 1")
    driver = node.launcher.connect_driver(first["session_id"])
    driver.hello()
    driver.claim()
    driver.succeed(first["id"])
    return driver


def open_connection(node: InProcessNode, **fields: object) -> str:
    response = node.http.post("/api/v1/connections", json=fields)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def submit(node: InProcessNode, connection: str) -> str:
    return str(node.submit("SET a.b = 1", connection=connection)["id"])


def refuse(driver: ScriptedDriver, statement_id: str) -> str:
    """Return the message with which the node refuses the state of a statement's connection."""
    with pytest.raises(httpx.HTTPStatusError) as refused:
        driver.open_connection(statement_id)
    body = refused.value.response.json()
    assert (refused.value.response.status_code, body["code"]) == (400, "invalid_request")
    return str(body["detail"])


def test_an_assignment_names_the_last_change_and_the_driver_asks_for_the_state(
    node: InProcessNode, driver: ScriptedDriver
) -> None:
    connection = open_connection(node, database="sales", conf={"spark.sql.ansi.enabled": "true"})
    first, second, third = (submit(node, connection) for _number in range(3))
    assigned = driver.claim()
    assert (assigned.connection, assigned.isolated) == (AssignedConnection(id=connection), False)
    state = driver.open_connection(first)
    assert state is not None
    assert (state.id, state.spec.database, state.snapshot) == (connection, "sales", None)
    assert state.spec.conf == {"spark.sql.ansi.enabled": "true"}
    driver.succeed(first, snapshot=STATE)

    # The second statement changes nothing, and reports no state.
    for statement_id in (second, third):
        assigned = driver.claim()
        assert assigned.connection == AssignedConnection(id=connection, changed_by=first)
        assert len(assigned.model_dump_json()) < 2000
        state = driver.open_connection(statement_id)
        assert state is not None
        assert (state.snapshot, state.changed_by) == (STATE, first)
        driver.succeed(statement_id)


def test_a_driver_gets_the_state_of_its_own_statements_in_flight_alone(
    node: InProcessNode, driver: ScriptedDriver
) -> None:
    connection = open_connection(node)
    first, waiting = submit(node, connection), submit(node, connection)
    driver.claim()
    session_id, other = node.start_session()
    without = str(node.submit("SELECT 1", session=session_id)["id"])
    other.claim()

    assert "is not in flight" in refuse(other, first)
    assert "is not in flight" in refuse(driver, waiting)
    assert "is not in flight" in refuse(driver, new_id("st"))
    assert "does not run in a connection" in refuse(other, without)
    driver.succeed(first)
    assert "is not in flight" in refuse(driver, first)
    assert driver.claim().statement_id == waiting
    driver.succeed(waiting)


def test_a_statement_whose_connection_is_gone_is_not_isolated_and_has_no_state(
    node: InProcessNode, driver: ScriptedDriver
) -> None:
    deleted, forgotten = open_connection(node), open_connection(node)
    first = submit(node, forgotten)
    driver.claim()
    driver.succeed(first, snapshot=STATE)
    of_deleted, of_forgotten = submit(node, deleted), submit(node, forgotten)
    with node.database.write("test") as tx:
        tx.execute(table.delete().where(table.c.id == deleted))
        tx.execute(update(table).where(table.c.id == forgotten).values(snapshot=null()))
        assert connections.read_state(tx, deleted) is None

    for connection, statement_id, changed_by in [
        # No session of a driver has this state.
        (deleted, of_deleted, of_deleted),
        (forgotten, of_forgotten, first),
    ]:
        assigned = driver.claim()
        assert (assigned.statement_id, assigned.isolated) == (statement_id, False)
        assert assigned.connection == AssignedConnection(id=connection, changed_by=changed_by)
        assert driver.open_connection(statement_id) is None
        driver.succeed(statement_id)


def test_a_state_is_stored_with_the_statement_that_has_reported_it(
    node: InProcessNode, driver: ScriptedDriver
) -> None:
    connection = open_connection(node)
    statement_id = submit(node, connection)
    driver.claim()
    assert driver.succeed(statement_id, snapshot=STATE).applied
    late = STATE.model_copy(update={"namespace": ["late"]})
    assert not driver.succeed(statement_id, snapshot=late).applied
    with node.database.read() as tx:
        state = connections.read_state(tx, connection)
        stored = tx.execute(
            statement_table.select().where(statement_table.c.connection_id == connection)
        ).one()
    assert state is not None
    assert (state.snapshot, state.changed_by) == (STATE, stored.id)
