"""Statements that the node executes itself: CANCEL STATEMENT."""

from __future__ import annotations

import pytest
from tests.support.in_process_node import InProcessNode


@pytest.mark.parametrize("in_session", [False, True])
def test_a_node_executes_cancel_statement_without_a_driver(
    node: InProcessNode, in_session: bool
) -> None:
    session_id, driver = node.start_session()
    target = node.submit(session=session_id)["id"]
    driver.claim()
    fields = {"session": node.start_session()[0]} if in_session else {}
    statement = node.submit(f"CANCEL STATEMENT '{target}'", **fields)
    assert (statement["kind"], statement["state"]) == ("local", "success")
    assert statement["launched_at"] is None
    rows = node.http.get(f"/api/v1/statements/{statement['id']}/result").json()["rows"]
    assert rows == [[target, "cancelling"]]
    assert node.statement(target)["state"] == "cancelling"
    if not in_session:
        session = node.describe_session(statement["session_id"])
        assert (session["kind"], session["state"], session["epoch"]) == ("local", "dead", 0)


@pytest.mark.finding("B18")
def test_cancel_statement_in_a_busy_session_cancels_the_statement_that_keeps_it_busy(
    node: InProcessNode,
) -> None:
    session_id, driver = node.start_session()
    busy = node.submit(session=session_id)["id"]
    next_ = node.submit("DROP TABLE t", session=session_id)["id"]
    driver.claim()
    cancel = node.submit(f"CANCEL STATEMENT '{busy}'", session=session_id)
    assert (cancel["state"], cancel["session_id"]) == ("success", session_id)
    assert driver.poll(in_flight=[busy]).cancel == [busy]
    assert node.statement(busy)["state"] == "cancelling"
    assert node.statement(next_)["state"] == "waiting"
    response = node.http.post(f"/api/v1/statements/{cancel['id']}/cancel")
    assert (response.status_code, response.json()["code"]) == (409, "already_ended")


@pytest.mark.parametrize("ended", [False, True])
def test_cancel_statement_fails_with_the_error_of_a_cancel(
    node: InProcessNode, ended: bool
) -> None:
    target, code = "st_1", "statement_not_found"
    if ended:
        session_id, driver = node.start_session()
        target, code = node.submit(session=session_id)["id"], "already_ended"
        driver.claim()
        driver.succeed(target)
    statement = node.submit(f"CANCEL STATEMENT '{target}'")
    assert (statement["state"], statement["error"]["code"]) == ("failed", code)


def test_a_cancel_statement_with_a_syntax_error_is_refused_with_its_position(
    node: InProcessNode,
) -> None:
    with node.expect_no_changes():
        response = node.http.post("/api/v1/statements", json={"statement": "CANCEL STATEMENT x"})
    problem = response.json()
    assert (response.status_code, problem["code"]) == (400, "invalid_statement")
    assert (problem["line"], problem["column"]) == (1, 18)
