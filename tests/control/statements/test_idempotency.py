from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.support.in_process_node import InProcessNode


def submit(
    node: InProcessNode, key: str, statement: str = "SELECT 1", **body: Any
) -> httpx.Response:
    return node.http.post(
        "/api/v1/statements",
        json={"statement": statement, **body},
        headers={"Idempotency-Key": key},
    )


def test_a_repeated_submit_returns_the_first_answer(node: InProcessNode) -> None:
    first = submit(node, "repeated")
    with node.storing_nothing():
        second = submit(node, "repeated")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["session_id"] == second.json()["session_id"]
    assert first.headers["location"] == second.headers["location"]


def test_a_repeated_submit_tells_how_the_statement_is_now(node: InProcessNode) -> None:
    session_id, driver = node.driven_session()
    statement_id = submit(node, "as-now", session=session_id).json()["id"]
    driver.claim()
    driver.succeed(statement_id)
    again = submit(node, "as-now", session=session_id).json()
    assert (again["id"], again["state"]) == (statement_id, "success")


def test_a_repeated_submit_may_wait_for_another_time(node: InProcessNode) -> None:
    """A client that lost its connection asks again for what is left of its patience."""
    first = submit(node, "patience", wait_timeout="10ms").json()
    second = submit(node, "patience", wait_timeout="20ms")
    assert (second.status_code, second.json()["id"]) == (201, first["id"])


@pytest.mark.parametrize(
    "change",
    [
        {"statement": "SELECT 2"},
        {"parameters": [{"name": "a", "value": 1}]},
        {"conf": {"spark.x": "1"}},
        {"row_limit": 1},
        {"result": "stored"},
    ],
)
def test_another_request_with_the_same_key_is_a_conflict(
    node: InProcessNode, change: dict[str, Any]
) -> None:
    key = f"conflict-{change}"
    first = submit(node, key).json()
    with node.storing_nothing():
        response = submit(node, key, **change)
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_conflict")
    assert first["id"] in response.json()["detail"]


def test_two_at_once_make_one_statement(node: InProcessNode) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: submit(node, "at-once"), range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer.json()["session_id"] for answer in answers}) == 1


def test_other_keys_make_other_statements(node: InProcessNode) -> None:
    assert submit(node, "one").json()["id"] != submit(node, "two").json()["id"]


def test_a_refused_submit_leaves_its_key_free(node: InProcessNode) -> None:
    assert submit(node, "refused", statement="SELECT 1; SELECT 2").status_code == 400
    assert submit(node, "refused", session="nobody").status_code == 404
    assert submit(node, "refused").status_code == 201


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_has_one_to_two_hundred_characters(node: InProcessNode, key: str) -> None:
    with node.storing_nothing():
        response = submit(node, key)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert "idempotency-key" in response.json()["detail"]
