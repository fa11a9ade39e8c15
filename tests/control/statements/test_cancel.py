"""Cancelling a statement in every state.

An ended statement does not change. The report of the driver decides how a running one ends.
"""

from __future__ import annotations

import httpx
import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.failure import Failure
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import CancelReason
from headrace.store.statements.statement_transitions import request_cancel

FAILURE = Failure(code="spark_error", message="no")


def cancel(node: InProcessNode, statement_id: str) -> httpx.Response:
    return node.http.post(f"/api/v1/statements/{statement_id}/cancel")


def start_statement(node: InProcessNode) -> tuple[str, ScriptedDriver]:
    """Submit a statement, let a driver start it, and return its id and the driver."""
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    driver.report_start(statement_id)
    return statement_id, driver


def test_a_waiting_statement_is_cancelled_at_once(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    response = cancel(node, statement_id)
    assert response.status_code == 202
    statement = response.json()
    assert statement["state"] == "cancelled"
    assert statement["cancel_requested_at"] <= statement["ended_at"]
    assert statement["launched_at"] is None
    assert driver.poll().assignment is None


@pytest.mark.parametrize("started", [False, True])
def test_a_statement_in_flight_is_cancelled_when_its_driver_has_stopped_it(
    node: InProcessNode, started: bool
) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    if started:
        driver.report_start(statement_id)
    response = cancel(node, statement_id)
    assert (response.status_code, response.json()["state"]) == (202, "cancelling")
    requested_at = response.json()["cancel_requested_at"]
    assert requested_at is not None
    assert response.json()["ended_at"] is None

    second = cancel(node, statement_id)
    assert (second.status_code, second.json()["state"]) == (202, "cancelling")
    assert second.json()["cancel_requested_at"] == requested_at

    assert driver.poll(in_flight=[statement_id]).cancel == [statement_id]
    assert driver.poll(in_flight=[statement_id], cancels_received=[statement_id]).cancel == []
    assert driver.report_end(statement_id, StatementState.CANCELLED).applied
    assert node.statement(statement_id)["state"] == "cancelled"


def test_a_late_report_of_the_start_does_not_undo_a_cancel(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()
    cancel(node, statement_id)
    assert driver.report_start(statement_id).applied is False
    assert node.statement(statement_id)["state"] == "cancelling"


def test_a_statement_that_succeeds_during_a_cancel_is_successful(node: InProcessNode) -> None:
    statement_id, driver = start_statement(node)
    cancel(node, statement_id)
    assert driver.succeed(statement_id).applied
    statement = node.statement(statement_id)
    assert statement["state"] == "success"
    assert statement["cancel_requested_at"] is not None
    assert node.http.get(f"/api/v1/statements/{statement_id}/result").status_code == 200


def test_a_statement_that_fails_during_a_cancel_has_failed(node: InProcessNode) -> None:
    statement_id, driver = start_statement(node)
    cancel(node, statement_id)
    assert driver.report_end(statement_id, StatementState.FAILED, failure=FAILURE).applied
    statement = node.statement(statement_id)
    assert (statement["state"], statement["error"]["message"]) == ("failed", "no")


def test_a_driver_cannot_cancel_a_statement_without_a_request(node: InProcessNode) -> None:
    statement_id, driver = start_statement(node)
    assert driver.report_end(statement_id, StatementState.CANCELLED, failure=FAILURE).applied
    assert node.statement(statement_id)["state"] == "failed"


@pytest.mark.parametrize("state", sorted(STATEMENT.terminal))
def test_an_ended_statement_cannot_be_cancelled(node: InProcessNode, state: StatementState) -> None:
    statement_id, driver = start_statement(node)
    if state in {StatementState.CANCELLED, StatementState.TIMEOUT}:
        timed_out = state is StatementState.TIMEOUT
        reason = CancelReason.TIMEOUT if timed_out else CancelReason.REQUESTED
        with node.database.write("test") as tx:
            request_cancel(tx, statement_id, actor="test", reason=reason)
        driver.report_end(statement_id, StatementState.CANCELLED)
    elif state is StatementState.SUCCESS:
        driver.succeed(statement_id)
    else:
        driver.report_end(statement_id, state, failure=FAILURE)
    before = node.statement(statement_id)

    response = cancel(node, statement_id)
    assert (response.status_code, response.json()["code"]) == (409, "already_ended")
    assert state in response.json()["detail"]
    assert node.statement(statement_id) == before


def test_an_open_poll_returns_a_cancel(node: InProcessNode) -> None:
    statement_id, driver = start_statement(node)
    cancel(node, statement_id)
    assert driver.poll(in_flight=[statement_id], wait=20).cancel == [statement_id]
