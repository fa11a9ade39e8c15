"""Query parameters that a call does not have are refused, on every route of the native API."""

from __future__ import annotations

import re

import pytest
from tests.support.in_process_node import InProcessNode

from headrace.model.messages import LINK_PREFIX

pytestmark = pytest.mark.finding("U11")


def test_every_call_refuses_a_parameter_that_it_does_not_have(node: InProcessNode) -> None:
    paths = node.http.get("/api/v1/openapi.json").json()["paths"]
    calls = [
        (method, path, operation)
        for path, methods in paths.items()
        if path.startswith("/api/v1/")
        for method, operation in methods.items()
    ]
    assert len(calls) > 25
    with node.expect_no_changes():
        for method, path, operation in calls:
            url = re.sub(r"\{\w+\}", "x", path)
            response = node.http.request(method, url, params={"surprise": "1"})
            problem = response.json()
            assert (response.status_code, problem["code"]) == (400, "unknown_parameter"), path
            assert "'surprise'" in problem["detail"]
            allowed = sorted(
                each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"
            )
            assert problem["hint"] == (
                f"Allowed: {', '.join(allowed)}."
                if allowed
                else "This call has no query parameters."
            )


def test_a_misspelt_parameter_is_answered_with_the_nearest_one(node: InProcessNode) -> None:
    response = node.http.get("/api/v1/statements", params={"limti": "1", "sesion": "x"})
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json() == {
        "type": "urn:headrace:error:unknown_parameter",
        "title": "The call does not have this query parameter.",
        "status": 400,
        "code": "unknown_parameter",
        "detail": "Unknown query parameter: 'limti', 'sesion'.",
        "hint": "Did you mean 'limit' and 'session'?"
        " Allowed: all_owners, before, id_prefix, limit, over, session, state, view.",
    }


def test_the_answer_shows_a_few_unknown_parameters_and_cuts_long_names(node: InProcessNode) -> None:
    query = "&".join(f"{'x' * 300}{number}=1" for number in range(20))
    response = node.http.get(f"/api/v1/jobs?{query}")
    assert response.json()["code"] == "unknown_parameter"
    assert len(response.text) < 1000
    assert "and 15 more" in response.json()["detail"]


@pytest.mark.parametrize("path", ["/health", "/_plugins/_async_query/x", "/"])
def test_other_interfaces_ignore_unknown_parameters(node: InProcessNode, path: str) -> None:
    expected = node.http.get(path)
    assert node.http.get(path, params={"pretty": "true"}).text == expected.text


def test_the_link_of_drivers_ignores_unknown_parameters(node: InProcessNode) -> None:
    session_id, _ = node.start_session()
    path = f"{LINK_PREFIX}/{session_id}/1/renew"
    response = node.http.post(path, params={"later": "1"}, json={})
    assert (response.status_code, response.json()["code"]) == (401, "unauthorized")
