"""Kinds of sessions and statements, and what ends by itself, seen through the API."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StatementState

QUICK = {"sweep": "50ms"}


def session(node: InProcessNode, session_id: str) -> dict[str, Any]:
    found: dict[str, Any] = node.http.get(f"/api/v1/sessions/{session_id}").json()
    return found


def test_a_batch_statement_has_a_session_that_quits(node: InProcessNode) -> None:
    submitted = node.submit("SELECT 1", kind="batch")
    assert submitted["kind"] == "batch"
    session_id = submitted["session_id"]
    assert session(node, session_id)["kind"] == "batch"
    driver = node.launcher.connect_driver(session_id)
    driver.hello()
    driver.claim()
    assert driver.poll(in_flight=[submitted["id"]]).close is False
    driver.succeed(submitted["id"])
    assert driver.poll().close is True
    assert session(node, session_id)["state"] == "closing"
    driver.goodbye()
    assert session(node, session_id)["state"] == "dead"
    assert node.statement(submitted["id"])["state"] == "success"


def test_a_batch_session_waits_for_its_statement_and_takes_no_second(node: InProcessNode) -> None:
    session_id, driver = node.driven_session(kind="batch")
    assert driver.poll().close is False
    node.submit(session=session_id, kind="batch")
    refused = node.http.post(
        "/api/v1/statements", json={"statement": "SELECT 2", "session": session_id}
    )
    assert (refused.status_code, refused.json()["code"]) == (409, "session_ended")


def test_a_batch_statement_does_not_run_in_an_interactive_session(node: InProcessNode) -> None:
    conf = {"spark.sql.shuffle.partitions": "7"}
    named = node.session(conf=conf, database="sales", jars=["/a.jar"])
    submitted = node.submit("SELECT 1", session=named, kind="batch")
    own = session(node, submitted["session_id"])
    assert own["id"] != named
    assert own["kind"] == "batch"
    assert (own["conf"], own["database"], own["jars"]) == (conf, "sales", ["/a.jar"])


def test_a_statement_that_runs_for_too_long_is_stopped(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id, timeout="100ms")["id"]
    driver.claim()
    driver.report_start(statement_id)
    wait_until(lambda: node.statement(statement_id)["state"] == "cancelling")
    assert driver.poll(in_flight=[statement_id]).cancel == [statement_id]
    driver.report_end(statement_id, StatementState.CANCELLED)
    statement = node.statement(statement_id)
    assert (statement["state"], statement["cancel_reason"]) == ("timeout", "timeout")
    assert statement["error"]["code"] == "statement_timeout"


def test_a_success_that_comes_before_the_timeout_is_heard_of_stays_one(
    start_node: StartNode,
) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id, timeout="50ms")["id"]
    driver.claim()
    driver.report_start(statement_id)
    wait_until(lambda: node.statement(statement_id)["state"] == "cancelling")
    driver.succeed(statement_id)
    assert node.statement(statement_id)["state"] == "success"


def test_a_statement_that_waits_for_too_long_does_not_run(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id, queue_timeout="100ms")["id"]
    statement = node.statement(statement_id, wait_timeout="10s")
    assert (statement["state"], statement["error"]["code"]) == ("timeout", "statement_timeout")
    assert statement["launched_at"] is None
    assert driver.poll().assignment is None


def test_an_idle_session_is_closed_and_says_why(start_node: StartNode) -> None:
    node = start_node(lease=QUICK, sessions={"idle_timeout": "1h"})
    session_id, driver = node.driven_session(idle_timeout="100ms")
    kept, _other = node.driven_session()
    wait_until(lambda: session(node, session_id)["state"] == "closing")
    assert driver.poll().close is True
    told = node.http.get("/api/v1/events", params={"entity_id": session_id}).json()["items"]
    assert told[-1]["detail"]["reason"] == "idle for 0.1 s"
    assert session(node, kept)["state"] == "running"
    assert session(node, kept)["idle_timeout"] == "1h"


def test_an_aged_session_is_closed_and_what_runs_is_cancelled(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, driver = node.driven_session(ttl="500ms")
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    wait_until(lambda: session(node, session_id)["state"] == "closing")
    assert node.statement(statement_id)["cancel_reason"] == "closed"


@pytest.mark.parametrize("named", [False, True])
def test_cancel_statement_is_done_by_a_node(node: InProcessNode, named: bool) -> None:
    session_id, driver = node.driven_session()
    target = node.submit(session=session_id)["id"]
    driver.claim()
    where = {"session": node.driven_session()[0]} if named else {}
    statement = node.submit(f"CANCEL STATEMENT '{target}'", wait_timeout="20s", **where)
    if named:
        # It takes its turn; nobody has asked for this session's work yet, and the sweep sees to it.
        statement = node.statement(statement["id"], wait_timeout="20s")
    assert (statement["kind"], statement["state"]) == ("local", "success")
    assert statement["launched_at"] is None
    rows = node.http.get(f"/api/v1/statements/{statement['id']}/result").json()["rows"]
    assert rows == [[target, "cancelling"]]
    assert node.statement(target)["state"] == "cancelling"
    if not named:
        own = session(node, statement["session_id"])
        assert (own["kind"], own["state"], own["epoch"]) == ("local", "dead", 0)


def test_a_local_statement_waits_for_what_was_sent_before_it(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    first = node.submit(session=session_id)["id"]
    target = node.submit()["id"]
    own = node.submit(f"CANCEL STATEMENT '{target}'", session=session_id)["id"]
    driver.claim()
    assert node.statement(own)["state"] == "waiting"
    refused = node.http.post(f"/api/v1/statements/{own}/cancel")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_cancellable")
    driver.succeed(first)
    assert driver.poll().assignment is None
    assert node.statement(own)["state"] == "success"
    assert node.statement(target)["state"] == "cancelled"


@pytest.mark.parametrize("ended", [False, True])
def test_cancel_statement_fails_as_a_cancel_does(node: InProcessNode, ended: bool) -> None:
    target, code = "st_1", "statement_not_found"
    if ended:
        session_id, driver = node.driven_session()
        target, code = node.submit(session=session_id)["id"], "already_ended"
        driver.claim()
        driver.succeed(target)
    statement = node.submit(f"CANCEL STATEMENT '{target}'")
    assert (statement["state"], statement["error"]["code"]) == ("failed", code)


def test_a_cancel_that_is_not_written_well_is_refused(node: InProcessNode) -> None:
    with node.storing_nothing():
        answer = node.http.post("/api/v1/statements", json={"statement": "CANCEL STATEMENT x"})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "invalid_statement")
    assert (problem["line"], problem["column"]) == (1, 18)


def test_a_driver_that_does_not_stop_is_ended(start_node: StartNode) -> None:
    node = start_node(lease=QUICK | {"cancel_grace": "100ms"})
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    node.http.post(f"/api/v1/statements/{statement_id}/cancel")
    statement = node.statement(statement_id, wait_timeout="20s")
    assert statement["state"] == "cancelled"
    assert node.launcher.killed == [{"backend": "local", "name": f"headrace-{session_id}-1"}]
    assert session(node, session_id)["state"] == "recovering"


def test_a_neighbour_is_not_ended_but_by_force(start_node: StartNode) -> None:
    node = start_node(lease=QUICK | {"cancel_grace": "100ms"})
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.renew(streams=1)
    cancel = f"/api/v1/statements/{statement_id}/cancel"
    node.http.post(cancel)
    wait_until(lambda: node.statement(statement_id)["cancel_note"] is not None)
    found = node.statement(statement_id)
    assert found["state"] == "cancelling"
    assert "force" in found["cancel_note"]
    assert node.launcher.killed == []
    node.http.post(cancel, params={"force": "true"})
    assert node.statement(statement_id, wait_timeout="20s")["state"] == "cancelled"
    assert node.launcher.killed != []
