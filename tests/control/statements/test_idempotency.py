"""Repeated submits with the same Idempotency-Key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.control.policy import Caller
from headrace.model.identity import Scope
from headrace.store.identity import users


def submit_with_key(
    node: InProcessNode, key: str, statement: str = "SELECT 1", **body: Any
) -> httpx.Response:
    return node.http.post(
        "/api/v1/statements",
        json={"statement": statement, **body},
        headers={"Idempotency-Key": key},
    )


def test_a_repeated_submit_returns_the_same_statement(node: InProcessNode) -> None:
    first = submit_with_key(node, "repeated")
    with node.expect_no_changes():
        second = submit_with_key(node, "repeated")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["session_id"] == second.json()["session_id"]
    assert first.headers["location"] == second.headers["location"]


def test_the_key_of_another_user_leads_to_no_statement_of_that_user(
    start_node: StartNode,
) -> None:
    node = start_node(token="of-the-node")
    statements = {}
    for name in ("ada", "bob"):
        with node.database.write("test") as tx:
            caller = Caller(users.sign_in(tx, "corp", name, name=name, groups=()).id)
        token = node.node.tokens.create(
            caller, name="t", expires=timedelta(days=1), scope=Scope.SUBMIT
        )
        node.http.headers["Authorization"] = f"Bearer {token.text}"
        answers = [submit_with_key(node, "shared") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert {answer.json()["owner"] for answer in answers} == {name}
        statements[name] = {answer.json()["id"] for answer in answers}
    assert [len(ids) for ids in statements.values()] == [1, 1]
    # The last caller is Bob.
    (of_ada,), (of_bob,) = statements["ada"], statements["bob"]
    assert node.http.get(f"/api/v1/statements/{of_ada}").status_code == 404
    assert node.http.get(f"/api/v1/statements/{of_bob}").status_code == 200


def test_a_repeated_submit_returns_the_current_state_of_the_statement(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    statement_id = submit_with_key(node, "as-now", session=session_id).json()["id"]
    driver.claim()
    driver.succeed(statement_id)
    second = submit_with_key(node, "as-now", session=session_id).json()
    assert (second["id"], second["state"]) == (statement_id, "success")


def test_a_repeated_submit_can_have_another_wait_timeout(node: InProcessNode) -> None:
    """A client that lost its connection repeats the submit with the rest of its timeout."""
    first = submit_with_key(node, "patience", wait_timeout="10ms").json()
    second = submit_with_key(node, "patience", wait_timeout="20ms")
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
def test_a_different_submit_with_the_same_key_is_refused(
    node: InProcessNode, change: dict[str, Any]
) -> None:
    key = f"conflict-{change}"
    first = submit_with_key(node, key).json()
    with node.expect_no_changes():
        response = submit_with_key(node, key, **change)
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_conflict")
    assert first["id"] in response.json()["detail"]


def test_concurrent_submits_with_one_key_create_one_statement(node: InProcessNode) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: submit_with_key(node, "at-once"), range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer.json()["session_id"] for answer in answers}) == 1


def test_different_keys_create_different_statements(node: InProcessNode) -> None:
    assert submit_with_key(node, "one").json()["id"] != submit_with_key(node, "two").json()["id"]


def test_the_key_of_a_refused_submit_can_be_used_again(node: InProcessNode) -> None:
    assert submit_with_key(node, "refused", statement="SELECT 1; SELECT 2").status_code == 400
    assert submit_with_key(node, "refused", session="nobody").status_code == 404
    assert submit_with_key(node, "refused").status_code == 201


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_has_one_to_two_hundred_characters(node: InProcessNode, key: str) -> None:
    with node.expect_no_changes():
        response = submit_with_key(node, key)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert "idempotency-key" in response.json()["detail"]
