"""A waiting statement says what it waits for."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from sqlalchemy import event, update
from tests.support.identities import LOCAL_CALLER, LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until

from headrace.control.policy import Caller
from headrace.model.ids import new_id
from headrace.model.lifecycle import TransactionState
from headrace.model.statement import WaitCode, WaitingFor
from headrace.model.transaction import Staged, TableWrite
from headrace.store import nodes
from headrace.store.tables import statements

pytestmark = pytest.mark.finding("U11")

INSERT = "INSERT INTO t SELECT 1"
PUBLISHING = [TransactionState.PREPARED, TransactionState.BEGUN, TransactionState.COMMITTING]


def waiting_for(node: InProcessNode, statement: dict[str, Any]) -> dict[str, Any]:
    """Return why a statement waits, and check that it says since when."""
    reason: dict[str, Any] = node.statement(statement["id"])["waiting_for"]
    assert reason["text"].endswith(".")
    assert reason["since"] is None or reason["since"].endswith("Z")
    return {name: value for name, value in reason.items() if name != "since"}


def expect(
    node: InProcessNode,
    statement: dict[str, Any],
    code: WaitCode,
    text: str,
    blocker: str | None = None,
) -> None:
    assert waiting_for(node, statement) == {"code": code, "text": text, "statement_id": blocker}


def test_a_statement_waits_for_the_driver_of_its_session(node: InProcessNode) -> None:
    session_id = node.session()
    statement = node.submit(session=session_id)
    driver = node.launcher.connect_driver(session_id)
    expect(node, statement, WaitCode.SESSION_START, "Its session starts its driver.")
    driver.hello()
    text = "It is next: the driver of its session takes it."
    expect(node, statement, WaitCode.DRIVER, text)
    driver.claim()
    assert node.statement(statement["id"])["waiting_for"] is None
    driver.succeed(statement["id"])
    assert node.statement(statement["id"])["waiting_for"] is None


def test_a_statement_waits_for_a_node_that_can_start_its_driver(start_node: StartNode) -> None:
    node = start_node(profiles={"far": {"backend": "spark-submit", "master": "yarn"}})
    with node.database.write("test.node") as tx:
        # A session whose profile no node offers would fail.
        nodes.register(
            tx, "no_far", address="http://far", version="1", seconds=60, profiles=["far"]
        )
    statement = node.submit(session=node.session(profile="far"))
    text = "Its session waits for a node that starts its driver."
    expect(node, statement, WaitCode.SESSION_START, text)


def test_a_statement_waits_for_the_second_start_of_a_driver(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "20ms"})
    session_id = node.session()
    statement = node.submit(session=session_id)
    node.launcher.connect_driver(session_id)
    node.launcher.report_exit(session_id, "out of memory")
    node.launcher.wait_for_request(session_id, launch=2)
    wait_until(lambda: node.session_state(session_id) == "starting", what="another start")
    expect(node, statement, WaitCode.SESSION_START, "Its session starts its driver, in attempt 2.")


def test_a_statement_waits_for_the_recovery_of_its_session(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "1h"})
    session_id, driver = node.start_session()
    statement = node.submit(session=session_id)
    # The node cannot kill the lost driver, so the session stays in this state.
    node.launcher.unreachable = True
    driver.goodbye()
    expect(
        node,
        statement,
        WaitCode.SESSION_RECOVERY,
        "Its session recovers, because its driver was lost: the end of the lost driver is not"
        " confirmed yet.",
    )


def test_a_statement_waits_behind_others_of_its_session(node: InProcessNode) -> None:
    session_id, _driver = node.start_session()
    _first, second, third = (node.submit(session=session_id) for _number in range(3))
    expect(node, second, WaitCode.QUEUE, "It is behind 1 statement of its session.")
    expect(node, third, WaitCode.QUEUE, "It is behind 2 statements of its session.")


def test_a_statement_waits_for_one_that_runs_alone(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=4)
    running, query = node.submit(INSERT, session=session_id), node.submit(session=session_id)
    driver.claim()
    text = f"The statement {running['id']} runs alone in the session."
    expect(node, query, WaitCode.EXCLUSIVE, text, running["id"])


def test_a_statement_that_runs_alone_waits_for_the_queries_before_it(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=4)
    node.submit(session=session_id)
    insert = node.submit(INSERT, session=session_id)
    driver.claim()
    text = "It runs alone in its session, after 1 running statement of the session."
    expect(node, insert, WaitCode.EXCLUSIVE, text)


def test_a_query_waits_for_a_place_in_its_session(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=2)
    *running, query = (node.submit(session=session_id) for _number in range(3))
    driver.claim()
    driver.poll(in_flight=[running[0]["id"]])
    text = "Its session runs 2 of at most 2 at once."
    expect(node, query, WaitCode.PARALLELISM, text)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("running_statements_per_user", "Its owner runs 1 of at most 1 statement"),
        ("running_statements", "All users together run 1 of at most 1 statement"),
    ],
)
def test_a_statement_waits_for_the_limit_of_its_user(
    start_node: StartNode, setting: str, text: str
) -> None:
    node = start_node(limits={setting: 1})
    one, driver = node.start_session()
    two, _driver = node.start_session()
    node.submit(session=one)
    statement = node.submit(session=two)
    driver.claim()
    expect(node, statement, WaitCode.LIMIT, f"{text} (setting limits.{setting}).")


def test_a_running_statement_waits_for_the_write_lock_of_its_table(node: InProcessNode) -> None:
    location = f"file:/{secrets.token_hex(4)}"
    write = TableWrite(location=location, table="`d`.`t`", overwrite=True)
    writers = []
    for _number in range(2):
        session_id, driver = node.start_session()
        statement = node.submit(INSERT, session=session_id)
        driver.claim()
        driver.report_start(statement["id"])
        driver.begin_write(statement["id"], [write])
        writers.append((statement, driver))
    (first, first_driver), (second, _driver) = writers
    assert node.statement(first["id"])["waiting_for"] is None
    text = f"It waits until the statement {first['id']} has written to `d`.`t`."
    expect(node, second, WaitCode.WRITE_LOCK, text, first["id"])
    assert node.statement(second["id"])["waiting_for"]["since"]
    first_driver.succeed(first["id"], wrote=True)
    assert node.statement(second["id"])["waiting_for"] is None


@pytest.mark.parametrize("code", [WaitCode.WRITE_LOCK, WaitCode.TRANSACTION])
def test_a_reason_names_no_statement_that_the_caller_may_not_read(
    node: InProcessNode, code: WaitCode
) -> None:
    table = secrets.token_hex(4)
    ids = []
    for steps in (PUBLISHING, PUBLISHING[:-1]):
        session_id, driver = node.start_session()
        ids.append(node.submit(INSERT, session=session_id)["id"])
        driver.claim()
        driver.report_start(ids[-1])
        if code is WaitCode.WRITE_LOCK:
            write = TableWrite(location=f"file:/{table}", table=table, overwrite=True)
            driver.begin_write(ids[-1], [write])
            continue
        staged = Staged(kind="session", catalog="c", identity="metastore", target=table, record={})
        transaction = new_id("tx")
        for state in steps:
            assert driver.transact(transaction, ids[-1], state, staged).applied
    with node.database.write("test.owner") as tx:
        tx.execute(update(statements).where(statements.c.id == ids[0]).values(owner="us_other"))
    service = node.node.statements
    statement = service.get(LOCAL_CALLER, ids[1])

    def explain(caller: Caller) -> WaitingFor:
        _position, reason = service.find_wait_reasons(caller, [statement])[ids[1]]
        assert reason is not None
        assert reason.code is code
        return reason

    shown = explain(LOCAL_CALLER)
    assert ids[0] in shown.text
    assert table in shown.text
    assert shown.statement_id == ids[0]
    hidden = explain(Caller(LOCAL_OWNER))
    assert "another owner" in hidden.text
    assert ids[0] not in str(hidden)


def test_one_query_explains_a_statement_that_waits_and_none_a_query_that_runs(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "1h"})
    session_id, driver = node.start_session()
    statement = node.submit(session=session_id)
    assert count_queries(node, statement) == 2
    driver.claim()
    assert count_queries(node, statement) == 1


def count_queries(node: InProcessNode, statement: dict[str, Any]) -> int:
    """Return the number of queries of statements by their id, during one read of a statement."""
    queries: list[str] = []

    def collect(_c: Any, _cursor: Any, sql: str, parameters: Any, *_others: Any) -> None:
        # Background tasks may read statements too.
        if "FROM statements" in sql and statement["id"] in str(parameters):
            queries.append(sql)

    event.listen(node.database._readers, "before_cursor_execute", collect)
    try:
        node.statement(statement["id"])
    finally:
        event.remove(node.database._readers, "before_cursor_execute", collect)
    return len(queries)
