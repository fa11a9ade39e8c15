"""NUL characters and huge numbers in requests get a clear refusal on every store, never a 500."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.frontends.http import strict_json
from headrace.model.ids import new_id

pytestmark = pytest.mark.finding("S15")

REFUSED = {400, 404, 422}
TEXTS = [
    *("'", '"', "%25", "%00", "a%00b", f"se_{'0' * 31}%00"),
    *("9" * 5000, "%ff", "\N{PILE OF POO}", "a" * 5000),
]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(params=["sqlite", "postgresql"])
def store_node(request: pytest.FixtureRequest, start_node: StartNode) -> InProcessNode:
    """Start a node on SQLite, then on PostgreSQL."""
    if request.param == "sqlite":
        return start_node()
    return start_node(store={"url": request.getfixturevalue("postgres_url")})


def test_ids_and_names_in_paths_that_no_store_can_hold_get_404(store_node: InProcessNode) -> None:
    for text in TEXTS:
        for method, path in (
            ("GET", f"/api/v1/sessions/{text}"),
            ("DELETE", f"/api/v1/sessions/{text}"),
            ("GET", f"/api/v1/sessions/{text}/log"),
            ("GET", f"/api/v1/statements/{text}"),
            ("GET", f"/api/v1/statements/{text}/result"),
            ("POST", f"/api/v1/statements/{text}/cancel"),
            ("GET", f"/api/v1/transactions/{text}"),
            ("GET", f"/{text}"),
        ):
            response = store_node.http.request(method, path)
            assert response.status_code == 404, (method, path, response.text)
            assert len(response.text) < 2000
        for method in ("GET", "DELETE"):
            response = store_node.http.request(method, f"/_plugins/_async_query/{text}")
            assert response.status_code in REFUSED, (method, response.text)


def test_query_parameters_that_no_store_can_hold_are_refused_or_match_nothing(
    store_node: InProcessNode,
) -> None:
    store_node.submit()
    for text in TEXTS:
        for query in (
            f"/api/v1/statements?session={text}",
            f"/api/v1/statements?before={text}",
            f"/api/v1/statements?limit={text}",
            f"/api/v1/statements?state={text}",
            f"/api/v1/sessions?before={text}",
            f"/api/v1/events?after={text}",
            f"/api/v1/events?entity={text}",
            f"/api/v1/statements/{new_id('st')}?wait_timeout={text}",
            f"/api/v1/statements/{new_id('st')}/result?chunk={text}",
            f"/api/v1/streams?before={text}",
            f"/api/v1/tokens?before={text}",
            f"/api/v1/users?after={text}",
            f"/api/v1/audit?before={text}",
            f"/api/v1/audit?action={text}",
            f"/api/v1/audit?actor={text}",
            f"/api/v1/audit?target={text}",
            f"/api/v1/quota?owner={text}",
            f"/api/v1/quota?owner=group:{text}",
        ):
            response = store_node.http.get(query)
            assert response.status_code in REFUSED, (query, response.text)
            assert response.headers["content-type"] == "application/problem+json"
        response = store_node.http.get(f"/api/v1/events?entity_id={text}")
        assert (response.status_code, response.json()["items"]) == (200, [])


def test_cursors_with_huge_numbers_are_refused(store_node: InProcessNode) -> None:
    for cursor in ("9999999999.1.1", f"1.{2**63}.1", f"1.1.{2**63}"):
        assert store_node.http.get(f"/api/v1/events?after={cursor}").status_code == 400
        headers = {"Accept": "text/event-stream", "Last-Event-ID": cursor}
        assert store_node.http.get("/api/v1/events", headers=headers).status_code == 400


def test_a_nul_in_a_body_is_refused_wherever_it_is(store_node: InProcessNode) -> None:
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("sessions", {field: "a\0"})
        for field in ("name", "profile", "catalog", "database", "kind", "ttl")
    ]
    bodies += [("sessions", {field: ["a\0"]}) for field in ("jars", "files", "py_files")]
    bodies += [
        ("sessions", {"conf": {"spark.a": "a\0"}}),
        ("sessions", {"conf": {"spark.a\0": "a"}}),
        ("sessions", {"\0": 1}),
    ]
    bodies += [
        ("statements", {"statement": "SELECT 1", **fields})
        for fields in (
            {"conf": {"spark.a": "\0"}},
            {"result_location": "file:///tmp/\0"},
            {"parameters": [{"value": "\0"}]},
            {"parameters": [{"name": "\0", "value": 1}]},
            {"parameters": [{"type": "\0", "value": 1}]},
            {"parameters": [{"value": [{"a": {"\0": 1}}]}]},
            {"parameters": [{"value": {"statement": "\0"}}]},
        )
    ]
    with store_node.expect_no_changes():
        for path, body in bodies:
            response = store_node.http.post(f"/api/v1/{path}", json=body)
            assert response.status_code == 400, (body, response.text)
            assert response.json()["code"] == "invalid_text"
        query = {"datasource": "a\0", "lang": "sql", "query": "SELECT 1"}
        assert store_node.http.post("/_plugins/_async_query", json=query).status_code == 400


def test_an_escaped_backslash_before_u0000_is_no_nul(store_node: InProcessNode) -> None:
    statement = store_node.submit(parameters=[{"value": "a\\u0000"}], text="SELECT ?")
    assert store_node.statement(statement["id"])["state"] == "waiting"


def test_numbers_in_a_body_have_at_most_40_digits(store_node: InProcessNode) -> None:
    def submit(number: str) -> int:
        content = f'{{"statement": "SELECT ?", "parameters": [{{"value": {number}}}]}}'
        response = store_node.http.post("/api/v1/statements", content=content, headers=JSON)
        return response.status_code

    assert submit("9" * 38) == 201
    assert submit("-" + "9" * 38) == 201
    with store_node.expect_no_changes():
        for number in ("9" * 41, "9" * 5000, "1e999"):
            assert submit(number) == 400


@pytest.mark.finding("S16")
def test_a_body_with_too_many_values_is_refused_before_it_is_parsed(node: InProcessNode) -> None:
    values = b"[" + b"[]," * 200_000 + b"[]]"
    content = b'{"statement": "SELECT ?", "parameters": [{"value": ' + values + b"}]}"
    with node.expect_no_changes():
        response = node.http.post("/api/v1/statements", content=content, headers=JSON)
    assert response.status_code == 400
    assert "more than 100000 values" in response.json()["detail"]


def test_separators_inside_strings_are_not_counted_as_values(node: InProcessNode) -> None:
    text = 'SELECT "\\",[{' + ",[{" * 100_000 + '"'
    assert node.submit(text)["statement"] == text


@pytest.mark.finding("S16")
def test_large_bodies_are_not_parsed_on_the_event_loop(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    parse = strict_json.parse_json

    def record_thread(body: bytes) -> object:
        threads.append(threading.current_thread().name)
        return parse(body)

    monkeypatch.setattr(strict_json, "parse_json", record_thread)
    for padding in (0, 100_000):
        content = json.dumps({"statement": "SELECT 1"}) + " " * padding
        assert node.http.post("/api/v1/statements", content=content, headers=JSON).is_success
    assert "worker" in threads[1]
    assert threads[0] != threads[1]


def test_a_key_that_is_twice_in_an_object_is_refused_by_every_call(node: InProcessNode) -> None:
    """Parsers disagree about which value counts: a proxy could check the one, and a node use it."""
    document = node.http.get("/api/v1/openapi.json").json()
    paths = [
        path for path, calls in document["paths"].items() if "requestBody" in calls.get("post", {})
    ]
    assert {"/api/v1/statements", "/api/v1/deployments", "/_plugins/_async_query"} <= set(paths)
    bodies = [
        b'{"statement": "SELECT 1", "statement": "DROP TABLE t"}',
        b'{"conf": {"a": "1", "\\u0061": "2"}}',
        b'{"parameters": [{"value": {"a": [{"b": 1, "b": 1}]}}]}',
    ]
    with node.expect_no_changes():
        for path in paths:
            for body in bodies:
                response = node.http.post(
                    path.replace("{", "").replace("}", ""), content=body, headers=JSON
                )
                assert response.status_code == 400, (path, body, response.text)
                assert "more than once" in response.text, (path, body)


def test_a_key_that_is_twice_in_the_report_of_a_driver_is_refused(node: InProcessNode) -> None:
    _session_id, driver = node.start_session()
    for body in (b'{"wait_seconds": 0, "wait_seconds": 0}', b'{"x": [{"a": 1, "a": 1}]}'):
        response = driver._client.post("/poll", content=body)
        assert response.status_code == 400
        assert "more than once" in response.text
    assert driver._client.post("/poll", content=b'{"wait_seconds": 0}').status_code == 200


def test_objects_of_a_list_may_have_the_same_keys(node: InProcessNode) -> None:
    value = {"base64": "AP8="}
    parameters = [{"name": name, "value": value, "type": "BINARY"} for name in "ab"]
    assert node.submit("SELECT :a, :b", parameters=parameters)["state"] == "waiting"
