"""Authentication by the token of a node."""

from __future__ import annotations

import pytest
from tests.support.in_process_node import InProcessNode, StartNode


@pytest.fixture
def node_with_token(start_node: StartNode) -> InProcessNode:
    return start_node(token="secret")


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "Basic secret", "secret"]
)
def test_a_call_without_a_valid_token_gets_401_and_changes_nothing(
    node_with_token: InProcessNode, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    with node_with_token.expect_no_changes():
        for method, path in (
            ("GET", "/api/v1/statements"),
            ("POST", "/api/v1/statements"),
            ("POST", "/api/v1/sessions"),
            ("GET", "/api/v1/sessions/x/log"),
            ("GET", "/api/v1/events"),
            ("GET", "/api/v1/nodes"),
        ):
            body = {"statement": "SELECT 1"} if method == "POST" else None
            response = node_with_token.http.request(method, path, json=body, headers=headers)
            assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
            assert "secret" not in response.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_call_with_the_token_is_accepted_whatever_the_case_of_the_scheme(
    node_with_token: InProcessNode, scheme: str
) -> None:
    node_with_token.http.headers["Authorization"] = f"{scheme} secret"
    assert node_with_token.submit()["owner"] == "anonymous"


def test_health_and_readiness_need_no_token(node_with_token: InProcessNode) -> None:
    assert node_with_token.http.get("/health").status_code == 200
    assert node_with_token.http.get("/ready").status_code == 200
