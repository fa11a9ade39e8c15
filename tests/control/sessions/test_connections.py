"""Connections: where their statements run, what a submit may not combine, and their limits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.scripted_driver import ScriptedDriver
from tests.support.store import waits_for_lock
from tests.support.waiting import wait_until

from headrace.model.connection import AssignedConnection
from headrace.model.ids import new_id
from headrace.model.messages import Assignment
from headrace.model.session import DriverLease, EntryForm, SessionView, Snapshot, SnapshotEntry
from headrace.model.statement import NewStatement, StatementSpec, WaitCode
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.sessions import connections
from headrace.store.statements import statements
from headrace.store.statements.locks import lock_owned_statement
from headrace.store.tables import connections as table

_CONNECTIONS = "/api/v1/connections"
STATE = Snapshot(catalog="lake", namespace=["sales"], conf={"spark.sql.shuffle.partitions": "7"})


def open_connection(node: InProcessNode, **fields: Any) -> str:
    response = node.http.post(_CONNECTIONS, json=fields)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def close_connection(node: InProcessNode, connection: str) -> None:
    assert node.http.delete(f"{_CONNECTIONS}/{connection}").status_code == 204


def refuse(node: InProcessNode, status: int, code: str, **fields: Any) -> str:
    """Submit a statement that the node refuses, and return the message."""
    with node.expect_no_changes():
        response = node.http.post("/api/v1/statements", json={"statement": "SELECT 1", **fields})
    problem = response.json()
    assert (response.status_code, problem["code"]) == (status, code), problem
    return str(problem["detail"])


def start_driver(node: InProcessNode, session: str) -> ScriptedDriver:
    driver = node.launcher.connect_driver(session)
    driver.hello()
    return driver


def test_a_statement_that_waits_when_its_connection_closes_runs_in_its_state(
    start_node: StartNode,
) -> None:
    node = start_node()
    connection = open_connection(node, database="shops")
    first, second = (node.submit("INSERT INTO t SELECT 1", connection=connection) for _ in "12")
    driver = start_driver(node, first["session_id"])
    assert driver.claim().connection is not None
    close_connection(node, connection)
    driver.succeed(first["id"], snapshot=STATE)
    assignment = driver.claim()
    assert (assignment.statement_id, assignment.isolated) == (second["id"], False)
    assert assignment.connection == AssignedConnection(id=connection, changed_by=first["id"])
    state = driver.open_connection(second["id"])
    assert state is not None
    assert (state.spec.database, state.snapshot) == ("shops", STATE)
    driver.succeed(second["id"])
    refuse(node, 404, "connection_not_found", connection=connection)


@pytest.mark.parametrize(
    ("conf", "code"),
    [
        ({"spark.executor.memory": "2g"}, "invalid_setting"),
        ({"spark.dynamicAllocation.enabled": "true"}, "invalid_setting"),
        ({"spark.sql.extensions": "a.B"}, "invalid_setting"),
        ({"headrace.ctas.atomicity": "${secret:pg}"}, "secret_misplaced"),
        ({"spark.sql.catalog.pg.password": "${secret:}"}, "invalid_secret_reference"),
    ],
)
def test_a_connection_with_a_configuration_that_its_driver_cannot_use_is_refused(
    node: InProcessNode, conf: dict[str, str], code: str
) -> None:
    response = node.http.post(_CONNECTIONS, json={"conf": conf})
    assert (response.status_code, response.json()["code"]) == (400, code)
    assert next(iter(conf)) in response.json()["detail"]


def test_a_submit_to_a_connection_that_closes_meanwhile_is_refused(
    start_node: StartNode, postgres_url: str
) -> None:
    node = start_node(store={"url": postgres_url})
    connection = open_connection(node)
    with ThreadPoolExecutor(1) as threads:
        with node.database.write("test") as tx:
            assert connections.close(tx, connection)
            refused = threads.submit(
                refuse, node, 404, "connection_not_found", connection=connection
            )
            wait_until(lambda: waits_for_lock(node.database), what="the submit waits")
        refused.result()


def test_a_close_sees_the_statement_of_a_submit_that_it_waited_for(
    start_node: StartNode, postgres_url: str
) -> None:
    node = start_node(store={"url": postgres_url})
    connection = open_connection(node)
    first = node.submit(connection=connection)
    driver = start_driver(node, first["session_id"])
    driver.claim()
    driver.succeed(first["id"], snapshot=STATE)
    with ThreadPoolExecutor(1) as threads:
        with node.database.write("test") as tx:
            new = NewStatement(
                id=new_id("st"),
                session_id=first["session_id"],
                owner=first["owner"],
                spec=StatementSpec(text="SELECT 1"),
                connection_id=connection,
            )
            statements.insert(tx, new, actor="test")
            assert connections.use(tx, connection)
            closed = threads.submit(close_connection, node, connection)
            wait_until(lambda: waits_for_lock(node.database), what="the close waits")
        closed.result()
    driver.claim()
    state = driver.open_connection(new.id)
    assert state is not None
    assert state.snapshot == STATE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"session": True}, "A statement runs in a session or in a connection."),
        ({"kind": "batch"}, "kind: A statement of kind batch has a driver of its own"),
    ],
)
def test_a_statement_of_a_connection_names_no_other_place(
    node: InProcessNode, fields: dict[str, Any], message: str
) -> None:
    connection = open_connection(node)
    if "session" in fields:
        fields = {"session": node.session()}
    assert message in refuse(node, 400, "invalid_request", connection=connection, **fields)


def test_a_stream_starts_where_its_connection_is(start_node: StartNode) -> None:
    node = start_node()
    connection = open_connection(node, database="shops", conf={"spark.sql.ansi.enabled": "false"})
    view = SessionView(name="v", query="SELECT 1", catalog="lake", namespace=["sales"])
    entry = SnapshotEntry(name="v", form=EntryForm.JAVA, body="AA==", view=view)

    def save(name: str) -> tuple[dict[str, Any], Assignment]:
        text = f"SAVE STREAM v TO noop IDENTIFIED BY {name}"
        session = node.submit(text, connection=connection)["session_id"]
        return node.describe_session(session), start_driver(node, session).claim()

    at_start, _assignment = save("one")
    assert (at_start["catalog"], at_start["database"]) == (None, "shops")
    statement = node.submit("USE lake.sales", connection=connection)
    driver = start_driver(node, statement["session_id"])
    driver.claim()
    driver.succeed(statement["id"], snapshot=STATE.model_copy(update={"views": [entry]}))
    after, assignment = save("two")
    assert assignment.query is not None
    assert assignment.query.spec.views == [view]
    assert (after["kind"], after["catalog"], after["database"]) == ("streaming", "lake", "sales")
    assert after["conf"] == {"spark.sql.ansi.enabled": "false"}


def test_a_statement_says_that_it_waits_for_its_connection(start_node: StartNode) -> None:
    node = start_node(sessions={"pool_parallelism": 3})
    connection = open_connection(node)
    first, second, third = (node.submit(connection=connection) for _ in "123")
    driver = start_driver(node, first["session_id"])
    driver.claim()
    for each in (second, third):
        reason = node.statement(each["id"])["waiting_for"]
        assert (reason["code"], reason["statement_id"]) == (WaitCode.CONNECTION, first["id"])
        assert first["id"] in reason["text"]


def test_a_connection_whose_statement_has_just_ended_is_not_idle(start_node: StartNode) -> None:
    node = start_node()
    connection = open_connection(node)
    statement = node.submit(connection=connection)
    driver = start_driver(node, statement["session_id"])
    driver.claim()
    with node.database.write("test") as tx:
        tx.execute(update(table).values(last_used_at=clock(-100)))
    driver.succeed(statement["id"])
    with node.database.write("test") as tx:
        assert connections.close_idle(tx, 60, 10) == 0


def test_an_owner_has_no_more_connections_than_allowed(start_node: StartNode) -> None:
    node = start_node(limits={"connections_per_user": 2})
    first, _second = open_connection(node), open_connection(node)
    response = node.http.post(_CONNECTIONS, json={})
    problem = response.json()
    assert (response.status_code, problem["code"]) == (429, "too_many_connections")
    assert "2 open connections" in problem["detail"]
    assert "limits.connections_per_user" in problem["detail"]
    close_connection(node, first)
    open_connection(node)


def test_connections_are_listed_in_pages(start_node: StartNode) -> None:
    node = start_node()
    ids = [open_connection(node, database=f"d{number}") for number in range(3)]
    page = node.http.get(_CONNECTIONS, params={"limit": 2}).json()
    assert [item["id"] for item in page["items"]] == ids[:0:-1]
    assert [item["database"] for item in page["items"]] == ["d2", "d1"]
    last = node.http.get(_CONNECTIONS, params={"before": page["next"]}).json()
    assert ([item["id"] for item in last["items"]], last["next"]) == ([ids[0]], None)


def test_no_connection_is_opened_while_a_node_of_an_older_version_runs(
    start_node: StartNode,
) -> None:
    node = start_node()
    with node.database.write("test") as tx:
        nodes.register(tx, "no_old", address="http://old", version="0.1.0", seconds=60)
    response = node.http.post(_CONNECTIONS, json={})
    assert (response.status_code, response.json()["code"]) == (503, "upgrade_unfinished")
    assert "no_old" in response.json()["detail"]


def test_a_driver_of_an_older_version_gets_no_statement_of_a_connection(
    start_node: StartNode,
) -> None:
    node = start_node()
    connection = open_connection(node)
    statement = node.submit(connection=connection)
    driver = start_driver(node, statement["session_id"])
    driver.opens_connections = False
    assert driver.poll().assignment is None
    ended = node.statement(statement["id"])
    assert (ended["state"], ended["error"]["code"]) == ("failed", "upgrade_unfinished")
    assert statement["session_id"] in ended["error"]["message"]
    other = node.submit()
    assert driver.claim().statement_id == other["id"]


def test_a_submit_and_the_end_of_an_earlier_statement_do_not_deadlock(
    start_node: StartNode, postgres_url: str
) -> None:
    node = start_node(store={"url": postgres_url})
    connection = open_connection(node)
    first = node.submit(connection=connection)
    driver = start_driver(node, first["session_id"])
    driver.claim()
    lease = DriverLease(first["session_id"], driver.bootstrap.epoch)
    with ThreadPoolExecutor(1) as threads:
        # The locks of an end, in its order.
        with node.database.write("test") as tx:
            assert lock_owned_statement(tx, first["id"], lease) is not None
            submitted = threads.submit(node.submit, connection=connection)
            wait_until(lambda: waits_for_lock(node.database), what="the submit waits")
            assert connections.use(tx, connection)
        assert submitted.result()["session_id"] == first["session_id"]
