"""A name in the path of a call can have any characters, if it is escaped."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from tests.support.in_process_node import InProcessNode

NAMES = ["a/b", "a/b/stop", "/", "tag: 100%", "a?b#c", "ü ß", "%2F", "a.b", "a;b,c", "a+b&c=d", "'"]
"""Names of queries can be any text; other objects have names of fewer characters."""


@pytest.mark.parametrize("name", NAMES)
def test_every_call_with_a_name_in_its_path_looks_for_exactly_that_name(
    node: InProcessNode, name: str
) -> None:
    paths = node.http.get("/api/v1/openapi.json").json()["paths"]
    calls = [
        (method, path)
        for path, methods in paths.items()
        if path.startswith("/api/v1/") and path.count("{") == 1
        for method in methods
        if "{action}" not in path
    ]
    assert len(calls) > 15
    with node.expect_no_changes():
        for method, path in calls:
            url = re.sub(r"\{\w+\}", lambda _match: quote(name, safe=""), path)
            json = {"confirmed": True} if path.endswith("/gone") else {}
            if path.endswith("/backfills"):
                json = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
            problem = node.http.request(method, url, json=json if method == "post" else None).json()
            assert re.fullmatch(r"\w+_not_found", problem["code"]), (method, path, problem)
            assert name in problem["detail"], (method, path, problem)


def test_a_session_is_found_by_its_name_however_it_is_escaped(node: InProcessNode) -> None:
    created = node.http.post("/api/v1/sessions", json={"name": "etl.v1-eu_west"}).json()

    for written in ("etl.v1-eu_west", "%65tl.v1-eu_west", "etl%2Ev1%2Deu%5Fwest"):
        assert node.http.get(f"/api/v1/sessions/{written}").json()["id"] == created["id"]
    assert node.http.get("/api/v1/sessions/etl.v1%2Feu_west").status_code == 404
    closed = node.http.delete("/api/v1/sessions/etl%2Ev1-eu%5fwest")
    assert (closed.status_code, closed.json()["id"]) == (202, created["id"])
