"""Timeouts of statements, and idle timeout and maximum age of sessions."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StatementState
from headrace.store import tables
from headrace.store.clock import clock

QUICK = {"sweep": "50ms"}


def test_a_statement_that_runs_longer_than_its_timeout_is_stopped(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id, timeout="100ms")["id"]
    driver.claim()
    driver.report_start(statement_id)
    wait_until(lambda: node.statement(statement_id)["state"] == "cancelling")
    assert driver.poll(in_flight=[statement_id]).cancel == [statement_id]
    driver.report_end(statement_id, StatementState.CANCELLED)
    statement = node.statement(statement_id)
    assert (statement["state"], statement["cancel_reason"]) == ("timeout", "timeout")
    assert statement["error"]["code"] == "statement_timeout"


def test_a_statement_that_succeeds_before_its_driver_receives_the_timeout_is_successful(
    start_node: StartNode,
) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id, timeout="50ms")["id"]
    driver.claim()
    driver.report_start(statement_id)
    wait_until(lambda: node.statement(statement_id)["state"] == "cancelling")
    driver.succeed(statement_id)
    assert node.statement(statement_id)["state"] == "success"


def test_a_statement_that_waits_longer_than_its_queue_timeout_does_not_run(
    start_node: StartNode,
) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id, queue_timeout="100ms")["id"]
    statement = node.statement(statement_id, wait_timeout="60s")
    assert (statement["state"], statement["error"]["code"]) == ("timeout", "statement_timeout")
    assert statement["launched_at"] is None
    assert driver.poll().assignment is None


@pytest.mark.finding("B9")
def test_the_queue_timeout_of_a_retried_statement_counts_from_the_loss_of_its_driver(
    start_node: StartNode,
) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.start_session()
    query = node.submit(session=session_id, queue_timeout="1m")["id"]
    driver.claim()
    with node.database.write("test") as tx:
        submitted = update(tables.statements).where(tables.statements.c.id == query)
        tx.execute(submitted.values(created_at=clock(-3600), waiting_since=clock(-3600)))
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    second = node.launcher.connect_driver(session_id, launch=2)
    second.hello()
    wait_until(lambda: node.statement(query)["state"] != "launched")
    assert second.claim().statement_id == query


@pytest.mark.finding("U2")
@pytest.mark.parametrize(
    ("setting", "kind"),
    [("pool_idle_timeout", "interactive"), ("unnamed_idle_timeout", "streaming")],
)
def test_the_driver_of_a_submit_without_a_session_ends_soon_after_the_work(
    start_node: StartNode, setting: str, kind: str
) -> None:
    node = start_node(lease=QUICK, sessions={setting: "200ms"})
    named, _ = node.start_session(name="mine")
    statement = node.submit(kind=kind)
    driver = node.launcher.connect_driver(statement["session_id"])
    driver.hello()
    driver.claim()
    driver.succeed(statement["id"])
    wait_until(lambda: node.session_state(statement["session_id"]) == "closing")
    assert driver.poll().close is True
    assert node.session_state(named) == "running"


@pytest.mark.finding("U2")
@pytest.mark.parametrize(("kind", "idle"), [("interactive", "5m"), ("batch", "1m")])
def test_by_default_the_driver_of_unnamed_work_ends_after_some_minutes(
    node: InProcessNode, kind: str, idle: str
) -> None:
    session = node.describe_session(node.submit(kind=kind)["session_id"])
    assert session["idle_timeout"] == idle
    node.http.delete(f"/api/v1/sessions/{session['id']}")


def test_a_session_that_an_opensearch_client_can_use_again_stays_for_longer(
    node: InProcessNode,
) -> None:
    body = {"query": "SELECT 1", "lang": "sql", "datasource": "x"}
    created = node.http.post("/_plugins/_async_query", json=body).json()
    session = node.describe_session(created["sessionId"])
    assert session["idle_timeout"] == "30m"
    node.http.delete(f"/api/v1/sessions/{session['id']}")


def test_an_idle_session_is_closed_with_the_reason_in_its_event(start_node: StartNode) -> None:
    node = start_node(lease=QUICK, sessions={"idle_timeout": "1h"})
    session_id, driver = node.start_session(idle_timeout="100ms")
    other, _driver = node.start_session()
    wait_until(lambda: node.session_state(session_id) == "closing")
    assert driver.poll().close is True
    assert node.events(session_id)[-1]["detail"]["reason"] == "idle for 0.1 s"
    assert node.session_state(other) == "running"
    assert node.describe_session(other)["idle_timeout"] == "1h"


def test_a_session_older_than_its_ttl_is_closed_and_its_statements_are_cancelled(
    start_node: StartNode,
) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.start_session(ttl="1h")
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    assert node.session_state(session_id) == "running"
    with node.database.write("test") as tx:
        own = update(tables.sessions).where(tables.sessions.c.id == session_id)
        tx.execute(own.values(created_at=clock(-3601)))
    wait_until(lambda: node.session_state(session_id) == "closing")
    assert node.statement(statement_id)["cancel_reason"] == "closed"


@pytest.mark.finding("S5")
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/v1/sessions", {"ttl": "999999999d"}, "ttl"),
        ("/api/v1/sessions", {"idle_timeout": "999999999d"}, "idle_timeout"),
        ("/api/v1/statements", {"statement": "SELECT 1", "timeout": "999999999d"}, "timeout"),
        ("/api/v1/statements", {"statement": "SELECT 1", "queue_timeout": "9999999h"}, "queue"),
        ("/api/v1/statements", {"statement": "SELECT 1", "wait_timeout": "36526d"}, "wait"),
    ],
)
def test_a_time_limit_of_more_than_100_years_gets_400(
    node: InProcessNode, path: str, body: dict[str, str], field: str
) -> None:
    with node.expect_no_changes():
        response = node.http.post(path, json=body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert response.json()["detail"].startswith(field)
    assert "100 years" in response.json()["detail"]
