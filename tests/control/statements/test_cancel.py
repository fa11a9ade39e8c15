"""A cancel in every state: what has ended stays as it is, and the truth wins over the request."""

from __future__ import annotations

import httpx
import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, StatementState

FAILURE = Failure(code="spark_error", message="no")


def cancel(node: InProcessNode, statement_id: str) -> httpx.Response:
    return node.http.post(f"/api/v1/statements/{statement_id}/cancel")


def in_flight(node: InProcessNode) -> tuple[str, ScriptedDriver]:
    """A statement that a driver runs."""
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    return statement_id, driver


def test_what_waits_is_cancelled_at_once(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    response = cancel(node, statement_id)
    assert response.status_code == 202
    statement = response.json()
    assert statement["state"] == "cancelled"
    assert statement["cancel_requested_at"] <= statement["ended_at"]
    assert statement["launched_at"] is None
    assert driver.poll().assignment is None


@pytest.mark.parametrize("started", [False, True])
def test_what_a_driver_has_in_hand_ends_as_the_driver_says(
    node: InProcessNode, started: bool
) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    if started:
        driver.report_start(statement_id)
    response = cancel(node, statement_id)
    assert (response.status_code, response.json()["state"]) == (202, "cancelling")
    asked_at = response.json()["cancel_requested_at"]
    assert asked_at is not None
    assert response.json()["ended_at"] is None

    again = cancel(node, statement_id)
    assert (again.status_code, again.json()["state"]) == (202, "cancelling")
    assert again.json()["cancel_requested_at"] == asked_at

    assert driver.poll(in_flight=[statement_id]).cancel == [statement_id]
    assert driver.poll(in_flight=[statement_id], cancels_received=[statement_id]).cancel == []
    assert driver.report_end(statement_id, StatementState.CANCELLED).applied
    assert node.statement(statement_id)["state"] == "cancelled"


def test_a_report_of_the_start_does_not_undo_a_cancel(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    cancel(node, statement_id)
    assert driver.report_start(statement_id).applied is False
    assert node.statement(statement_id)["state"] == "cancelling"


def test_a_success_that_was_published_first_stays_one(node: InProcessNode) -> None:
    statement_id, driver = in_flight(node)
    cancel(node, statement_id)
    assert driver.succeed(statement_id).applied
    statement = node.statement(statement_id)
    assert statement["state"] == "success"
    assert statement["cancel_requested_at"] is not None
    assert node.http.get(f"/api/v1/statements/{statement_id}/result").status_code == 200


def test_a_failure_during_a_cancel_is_told(node: InProcessNode) -> None:
    statement_id, driver = in_flight(node)
    cancel(node, statement_id)
    assert driver.report_end(statement_id, StatementState.FAILED, failure=FAILURE).applied
    statement = node.statement(statement_id)
    assert (statement["state"], statement["error"]["message"]) == ("failed", "no")


def test_only_what_was_asked_to_be_cancelled_is(node: InProcessNode) -> None:
    statement_id, driver = in_flight(node)
    assert driver.report_end(statement_id, StatementState.CANCELLED, failure=FAILURE).applied
    assert node.statement(statement_id)["state"] == "failed"


@pytest.mark.parametrize("state", sorted(STATEMENT.terminal))
def test_what_has_ended_is_not_cancelled(node: InProcessNode, state: StatementState) -> None:
    statement_id, driver = in_flight(node)
    if state is StatementState.CANCELLED:
        cancel(node, statement_id)
        driver.report_end(statement_id, state)
    elif state is StatementState.SUCCESS:
        driver.succeed(statement_id)
    else:
        driver.report_end(statement_id, state, failure=FAILURE)
    before = node.statement(statement_id)

    response = cancel(node, statement_id)
    assert (response.status_code, response.json()["code"]) == (409, "already_ended")
    assert state in response.json()["detail"]
    assert node.statement(statement_id) == before


def test_a_cancel_reaches_a_driver_that_waits_for_work(node: InProcessNode) -> None:
    statement_id, driver = in_flight(node)
    cancel(node, statement_id)
    assert driver.poll(in_flight=[statement_id], wait=20).cancel == [statement_id]
