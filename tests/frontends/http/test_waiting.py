"""Waiting for a statement: `wait_timeout` and `on_wait_timeout`."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result

from headrace.errors import StoreUnavailable
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState

LONG = "60s"


def test_a_submit_with_a_wait_returns_the_rows_when_the_statement_succeeds(
    node: InProcessNode,
) -> None:
    session_id, driver = node.start_session()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.submit, session=session_id, wait_timeout=LONG)
        statement_id = driver.claim().statement_id
        result = inline_result([("n", "long"), ("s", "string")], [[2**60, "a"], [None, "b"]])
        driver.succeed(statement_id, result)
        statement = answer.result(timeout=30)
    assert statement["state"] == "success"
    assert statement["rows"] == [[str(2**60), "a"], [None, "b"]]
    assert statement["next_chunk"] is None
    assert statement["result"]["row_count"] == 2


def test_a_submit_with_a_wait_leaves_out_large_rows(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.submit, session=session_id, wait_timeout=LONG)
        statement_id = driver.claim().statement_id
        result = inline_result([("s", "string")], [["x" * 300_000]])
        driver.succeed(statement_id, result)
        statement = answer.result(timeout=30)
    assert (statement["state"], statement["rows"], statement["next_chunk"]) == ("success", None, 0)
    rows = node.http.get(f"/api/v1/statements/{statement_id}/result", params={"chunk": 0}).json()
    assert rows["rows"] == [["x" * 300_000]]


def test_the_rows_of_a_submit_follow_the_numbers_option(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    body = {"statement": "SELECT 1", "session": session_id, "wait_timeout": LONG}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.http.post, "/api/v1/statements?numbers=plain", json=body)
        statement_id = driver.claim().statement_id
        driver.succeed(statement_id, inline_result([("n", "long")], [[7]]))
        assert answer.result(timeout=30).json()["rows"] == [[7]]


def test_a_submit_with_a_wait_returns_the_error_of_a_failed_statement(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.submit, session=session_id, wait_timeout=LONG)
        statement_id = driver.claim().statement_id
        failure = Failure(code="spark_error", message="no")
        driver.report_end(statement_id, StatementState.FAILED, failure=failure)
        statement = answer.result(timeout=30)
    assert (statement["state"], statement["error"]["message"]) == ("failed", "no")
    assert (statement["rows"], statement["next_chunk"]) == (None, None)


def test_a_statement_continues_after_the_wait_of_its_submit_has_ended(node: InProcessNode) -> None:
    session_id, _driver = node.start_session()
    start = time.monotonic()
    statement = node.submit(session=session_id, wait_timeout="100ms")
    assert 0.1 <= time.monotonic() - start < 30
    assert statement["state"] == "waiting"
    assert node.statement(statement["id"])["state"] == "waiting"


def test_on_wait_timeout_cancel_cancels_a_statement_that_has_not_ended(node: InProcessNode) -> None:
    session_id, _driver = node.start_session()
    options = {"wait_timeout": "100ms", "on_wait_timeout": "cancel"}
    statement = node.submit(session=session_id, **options)
    assert statement["state"] == "cancelled"
    assert statement["cancel_requested_at"] is not None


def test_on_wait_timeout_cancel_returns_the_success_that_came_before_the_cancel(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, driver = node.start_session()
    requests, claimed = node.node.async_statements, threading.Event()
    cancel = requests._cancel_and_wait

    async def cancel_what_is_claimed(*arguments: Any) -> Any:
        await asyncio.to_thread(claimed.wait, 30)
        return await cancel(*arguments)

    monkeypatch.setattr(requests, "_cancel_and_wait", cancel_what_is_claimed)
    options = {"wait_timeout": "100ms", "on_wait_timeout": "cancel"}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.submit, session=session_id, **options)
        statement_id = driver.claim().statement_id
        claimed.set()
        orders = driver.poll(in_flight=[statement_id], wait=30)
        assert orders.cancel == [statement_id]
        # The statement published its rows before the driver received the cancel.
        driver.succeed(statement_id)
        statement = answer.result(timeout=30)
    assert statement["state"] == "success"
    assert statement["rows"] == [[1]]


def test_a_submit_without_a_wait_returns_at_once(node: InProcessNode) -> None:
    session_id, _driver = node.start_session()
    for wait in ({}, {"wait_timeout": None}, {"wait_timeout": "0s"}):
        assert node.submit(session=session_id, **wait)["state"] == "waiting"


def test_reading_a_statement_waits_for_its_end(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.statement, statement_id, wait_timeout=LONG)
        driver.claim()
        driver.report_start(statement_id)
        driver.succeed(statement_id)
        assert answer.result(timeout=30)["state"] == "success"
    assert node.statement(statement_id, wait_timeout=LONG)["state"] == "success"


def test_many_clients_can_wait_for_one_statement(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    with ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(node.statement, statement_id, wait_timeout=LONG) for _ in range(20)]
        driver.claim()
        driver.succeed(statement_id)
        assert {answer.result(timeout=30)["state"] for answer in answers} == {"success"}


@pytest.mark.parametrize("wait", ["10", "1 fortnight", "-1s", "61s", "1e9s", "", "s", "9" * 400])
def test_an_invalid_wait_timeout_is_refused(node: InProcessNode, wait: str) -> None:
    statement_id = node.submit()["id"]
    with node.expect_no_changes():
        submitted = node.http.post(
            "/api/v1/statements", json={"statement": "SELECT 1", "wait_timeout": wait}
        )
        read = node.http.get(f"/api/v1/statements/{statement_id}", params={"wait_timeout": wait})
        for response in (submitted, read):
            assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
            assert "wait_timeout" in response.json()["detail"]


def test_a_wait_timeout_without_a_unit_is_refused_with_an_example(node: InProcessNode) -> None:
    body = {"statement": "SELECT 1", "wait_timeout": 10}
    response = node.http.post("/api/v1/statements", json=body)
    assert response.status_code == 400
    assert "Add a unit, for example 10s" in response.json()["detail"]


def test_the_thread_that_stores_the_end_prepares_the_response(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, driver = node.start_session()
    statements, ends = node.node.statements, node.node._awaited_ends
    read, call_back = statements.get_with_rows, ends.call_back
    storing: list[int] = []
    reading: list[int] = []

    def call_back_here(statement_id: str) -> None:
        storing.append(threading.get_ident())
        call_back(statement_id)
        storing.pop()

    def read_here(*arguments: Any, **options: Any) -> Any:
        reading.append(threading.get_ident())
        assert reading == storing
        return read(*arguments, **options)

    monkeypatch.setattr(ends, "call_back", call_back_here)
    monkeypatch.setattr(statements, "get_with_rows", read_here)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.submit, session=session_id, wait_timeout=LONG)
        assert driver.succeed(driver.claim().statement_id).applied
        assert answer.result(30)["state"] == "success"
    assert len(reading) == 1


def test_a_response_that_cannot_be_prepared_is_made_after_the_wake_up(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, driver = node.start_session()
    read, failures = node.node.statements.get_with_rows, [StoreUnavailable("no connection")]

    def read_later(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(*arguments, **options)

    monkeypatch.setattr(node.node.statements, "get_with_rows", read_later)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(node.submit, session=session_id, wait_timeout=LONG)
        assert driver.succeed(driver.claim().statement_id).applied
        assert answer.result(30)["state"] == "success"
    assert failures == []
