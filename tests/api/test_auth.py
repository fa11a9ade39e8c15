from __future__ import annotations

import pytest
from tests.support.in_process_node import InProcessNode, StartNode


@pytest.fixture
def locked(start_node: StartNode) -> InProcessNode:
    """A node that asks for a token."""
    return start_node(token="secret")


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer wrong", "Basic secret", "secret"])
def test_a_call_without_the_token_is_refused(locked: InProcessNode, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given}
    with locked.storing_nothing():
        for method, path in (
            ("GET", "/api/v1/statements"),
            ("POST", "/api/v1/statements"),
            ("POST", "/api/v1/sessions"),
            ("GET", "/api/v1/sessions/x/log"),
            ("GET", "/api/v1/events"),
            ("GET", "/api/v1/nodes"),
        ):
            body = {"statement": "SELECT 1"} if method == "POST" else None
            response = locked.http.request(method, path, json=body, headers=headers)
            assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
            assert "secret" not in response.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_call_with_the_token_is_served(locked: InProcessNode, scheme: str) -> None:
    locked.http.headers["Authorization"] = f"{scheme} secret"
    assert locked.submit()["owner"] == "anonymous"


def test_whether_a_node_lives_is_no_secret(locked: InProcessNode) -> None:
    assert locked.http.get("/health").status_code == 200
    assert locked.http.get("/ready").status_code == 200
