"""Limits on sessions and statements, over HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until

from headrace.config.limits import LimitSettings


def _refuse(node: InProcessNode, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Post a request that a limit refuses. Return the problem."""
    response = node.http.post(f"/api/v1/{path}", json=body)
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0
    problem: dict[str, Any] = response.json()
    assert problem["hint"]
    return problem


@pytest.mark.parametrize("setting", ["sessions", "sessions_per_user"])
def test_a_session_above_the_limit_is_refused(start_node: StartNode, setting: str) -> None:
    node = start_node(limits={setting: 2})
    first, driver = node.start_session()
    node.submit(kind="batch")

    problem = _refuse(node, "sessions", {})
    assert problem["code"] == "too_many_sessions"
    assert f"limits.{setting})" in problem["detail"]
    for kind in ("interactive", "batch"):
        refused = _refuse(node, "statements", {"statement": "SELECT 2", "kind": kind})
        assert refused["code"] == "too_many_sessions"
    # A statement that a node executes itself needs no driver, and one for a live session no other.
    node.submit("SHOW STREAMS")
    node.submit("SELECT 3", session=first)

    node.http.delete(f"/api/v1/sessions/{first}")
    driver.goodbye()
    wait_until(lambda: node.session_state(first) == "dead", what="the session ends")
    node.session()


def test_the_number_of_sessions_is_limited_by_default(start_node: StartNode) -> None:
    """Each session starts a JVM: a loop that opens sessions must not end the host."""
    defaults = LimitSettings()
    node = start_node(limits=defaults.model_dump())
    assert (defaults.sessions, defaults.sessions_per_user) == (1000, 100)
    for _number in range(100):
        node.session()
    assert _refuse(node, "sessions", {})["code"] == "too_many_sessions"


@pytest.mark.parametrize("setting", ["waiting_statements", "waiting_statements_per_user"])
def test_a_waiting_statement_above_the_limit_is_refused(
    start_node: StartNode, setting: str
) -> None:
    node = start_node(limits={setting: 2})
    session_id, driver = node.start_session()
    node.submit("SELECT 1", session=session_id)
    driver.claim()
    waiting = [node.submit("SELECT 2", session=session_id) for _number in range(2)]

    problem = _refuse(node, "statements", {"statement": "SELECT 3", "session": session_id})
    assert problem["code"] == "queue_full"
    assert f"limits.{setting})" in problem["detail"]
    node.submit("SHOW STREAMS", session=session_id)

    node.http.post(f"/api/v1/statements/{waiting[0]['id']}/cancel")
    node.submit("SELECT 4", session=session_id)


def test_a_waiting_statement_has_a_position_in_its_queue(start_node: StartNode) -> None:
    node = start_node()
    session_id, driver = node.start_session()
    first, second, third = (node.submit("SELECT 1", session=session_id) for _number in range(3))
    assert [node.statement(each["id"])["queue_position"] for each in (first, second, third)] == [
        1,
        2,
        3,
    ]

    driver.claim()
    node.http.post(f"/api/v1/statements/{second['id']}/cancel")

    assert node.statement(first["id"])["queue_position"] is None
    assert node.statement(second["id"])["queue_position"] is None
    assert node.statement(third["id"])["queue_position"] == 1


def test_a_statement_waits_until_a_place_is_free(start_node: StartNode) -> None:
    node = start_node(limits={"running_statements": 1})
    session_id, driver = node.start_session()
    other_id, other = node.start_session()
    node.submit("SELECT 1", session=session_id)
    first = driver.claim()
    waiting = node.submit("SELECT 2", session=other_id)
    assert other.poll(wait=0).assignment is None

    with ThreadPoolExecutor(1) as thread:
        poll = thread.submit(other.poll, wait=30)
        driver.succeed(first.statement_id)
        assignment = poll.result().assignment

    assert assignment is not None
    assert assignment.statement_id == waiting["id"]


def test_a_place_becomes_free_when_a_driver_is_lost(start_node: StartNode) -> None:
    node = start_node(limits={"running_statements": 1})
    session_id, driver = node.start_session()
    other_id, other = node.start_session()
    node.submit("INSERT INTO t VALUES (1)", session=session_id)
    driver.claim()
    waiting = node.submit("SELECT 2", session=other_id)

    with ThreadPoolExecutor(1) as thread:
        poll = thread.submit(other.poll, wait=30)
        driver.goodbye()
        assignment = poll.result().assignment

    assert assignment is not None
    assert assignment.statement_id == waiting["id"]
