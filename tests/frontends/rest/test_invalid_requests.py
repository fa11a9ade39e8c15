"""Invalid requests get a problem with an error code, and the node stores nothing."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.in_process_node import InProcessNode

from headrace.frontends.http.body_limit import BODY_LIMIT
from headrace.grammar.text import MAX_BYTES

STATEMENTS = "/api/v1/statements"
JSON = {"Content-Type": "application/json"}


def expect_problem(
    node: InProcessNode, body: Any, status: int, code: str, *, path: str = STATEMENTS
) -> dict[str, Any]:
    """Post a body, as bytes or as an object, and return the problem that the node answers."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with node.expect_no_changes():
        response = node.http.post(path, content=content, headers=JSON)
    problem: dict[str, Any] = response.json()
    assert (response.status_code, problem["code"]) == (status, code), problem
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    assert problem["type"] == f"urn:headrace:error:{code}"
    assert problem["title"]
    return problem


@pytest.mark.parametrize("text", ["", " \n\t", "-- nothing\n", "/* nothing */", ";", " ;; -- x"])
def test_a_text_without_a_statement_is_refused(node: InProcessNode, text: str) -> None:
    expect_problem(node, {"statement": text}, 400, "empty_statement")


@pytest.mark.parametrize("text", ["SELECT '" + "a" * MAX_BYTES + "'", "ä" * (MAX_BYTES // 2 + 1)])
def test_a_statement_of_more_than_ten_mebibytes_is_refused(node: InProcessNode, text: str) -> None:
    body = json.dumps({"statement": text}, ensure_ascii=False).encode()
    expect_problem(node, body, 413, "statement_too_large")


def test_a_statement_of_ten_mebibytes_is_accepted(node: InProcessNode) -> None:
    text = "SELECT '" + "\u00e4" * ((MAX_BYTES - 9) // 2)
    text += "a" * (MAX_BYTES - len(text.encode()) - 1) + "'"
    assert len(text.encode()) == MAX_BYTES
    statement = node.submit(text)
    assert statement["statement"] == text
    assert node.statement(statement["id"])["statement"] == text


def test_a_nul_character_is_refused_with_its_position(node: InProcessNode) -> None:
    problem = expect_problem(node, {"statement": "SELECT 1,\n '\0'"}, 400, "invalid_text")
    assert (problem["line"], problem["column"]) == (2, 3)


@pytest.mark.parametrize("body", [b'{"statement": "SELECT \xff"}', b"\xff\xfe\xfd", b"\xc3\x28"])
def test_a_body_that_is_not_utf_8_is_refused(node: InProcessNode, body: bytes) -> None:
    assert "UTF-8" in expect_problem(node, body, 400, "invalid_request")["detail"]


@pytest.mark.parametrize(
    "body",
    [
        rb'{"statement": "SELECT \ud800"}',
        rb'{"statement": "SELECT 1", "session": "\udfff"}',
        rb'{"statement": "SELECT 1", "conf": {"spark.x": "\ud800"}}',
        rb'{"statement": "SELECT 1", "conf": {"spark.\ud800": "x"}}',
        rb'{"statement": "SELECT :a", "parameters": [{"name": "a", "value": "\ud800"}]}',
        rb'{"statement": "SELECT :a", "parameters": [{"name": "a", "value": [{"\ud800": 1}]}]}',
        rb'{"statement": "SELECT 1", "location": "\ud800"}',
        rb'{"statement": "SELECT 1", "\ud800": 1}',
    ],
)
def test_half_a_surrogate_pair_is_refused(node: InProcessNode, body: bytes) -> None:
    with node.expect_no_changes():
        response = node.http.post(STATEMENTS, content=body, headers=JSON)
    assert response.status_code == 400
    assert response.json()["code"] in {"invalid_request", "invalid_text", "invalid_setting"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"statement": "SELECT :a", "parameters": [{"name": "a", "value": NaN}]}',
        b'{"statement": "SELECT :a", "parameters": [{"name": "a", "value": [-Infinity]}]}',
        b'{"statement": "SELECT :a", "parameters": [{"name": "a", "value": 1e999}]}',
        b'{"statement": "SELECT 1", "row_limit": 1e999}',
        b'{"statement": "SELECT 1", "row_limit": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_number_that_json_cannot_represent_is_refused(node: InProcessNode, body: bytes) -> None:
    expect_problem(node, body, 400, "invalid_request")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (STATEMENTS, {"statement": "SELECT 1", "statment": "x"}, "statment"),
        (STATEMENTS, {"statement": "SELECT ?", "parameters": [{"v": 1}]}, "parameters.0.v"),
        ("/api/v1/sessions", {"nmae": "x"}, "nmae"),
    ],
)
def test_an_unknown_field_is_refused_by_name(
    node: InProcessNode, path: str, body: dict[str, Any], field: str
) -> None:
    problem = expect_problem(node, body, 400, "invalid_request", path=path)
    assert f"Unknown field {field!r}" in problem["detail"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"statement": None}, "statement"),
        ({"statement": 1}, "statement"),
        ({"row_limit": 0}, "row_limit"),
        ({"row_limit": -1}, "row_limit"),
        ({"row_limit": 2**63}, "row_limit"),
        ({"row_limit": "10"}, "row_limit"),
        ({"row_limit": True}, "row_limit"),
        ({"byte_limit": 1.5}, "byte_limit"),
        ({"result": "tape"}, "result"),
        ({"on_wait_timeout": "stop"}, "on_wait_timeout"),
        ({"conf": {"spark.x": 1}}, "conf.spark.x"),
        ({"conf": []}, "conf"),
        ({"parameters": {"a": 1}}, "parameters"),
        ({"session": 7}, "session"),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_field(
    node: InProcessNode, changes: dict[str, Any], field: str
) -> None:
    problem = expect_problem(node, {"statement": "SELECT 1", **changes}, 400, "invalid_request")
    assert problem["detail"].startswith(f"{field}: ")


@pytest.mark.parametrize(
    "parameter",
    [
        {"value": {"base64": "AP8="}},
        {"value": {"base64": "AP8="}, "type": "STRING"},
        {"value": {"base64": "AP8=", "more": 1}, "type": "BINARY"},
        {"value": {"base64": "A"}, "type": "BINARY"},
        {"value": {"base64": "é==="}, "type": "BINARY"},
        {"value": {"base64": 1}, "type": "BINARY"},
        {"value": {}, "type": "MAP<STRING,INT>"},
    ],
    ids=str,
)
def test_an_object_is_a_parameter_only_if_it_is_bytes(
    node: InProcessNode, parameter: dict[str, Any]
) -> None:
    request = {"statement": "SELECT ?", "parameters": [parameter]}
    problem = expect_problem(node, request, 400, "invalid_request")
    assert "must be bytes" in problem["detail"]


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"value": [{"base64": "AP8="}], "type": "ARRAY<BINARY>"}, "cannot be objects"),
        ({"value": [[1], [{}]]}, "cannot be objects"),
        ({"value": [1, [2]], "type": "ARRAY<INT>"}, "all arrays, or all no arrays"),
        ({"value": [[[]], [5]]}, "all arrays, or all no arrays"),
        ({"value": [1, "a"]}, "BIGINT, STRING"),
        ({"value": [[1], [True]]}, "BIGINT, BOOLEAN"),
    ],
    ids=str,
)
def test_an_array_has_values_of_one_type_and_no_objects(
    node: InProcessNode, parameter: dict[str, Any], message: str
) -> None:
    request = {"statement": "SELECT ?", "parameters": [parameter]}
    problem = expect_problem(node, request, 400, "invalid_request")
    assert message in problem["detail"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"SELECT 1"', b"null", b"[" * 100_000])
def test_a_body_that_is_not_a_json_object_is_refused(node: InProcessNode, body: bytes) -> None:
    with node.expect_no_changes():
        response = node.http.post(STATEMENTS, content=body, headers=JSON)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "x"])
def test_a_body_of_another_content_type_is_refused(node: InProcessNode, kind: str | None) -> None:
    content = json.dumps({"statement": "SELECT 1"}).encode()
    headers = {} if kind is None else {"Content-Type": kind}
    with node.expect_no_changes():
        response = node.http.post(STATEMENTS, content=content, headers=headers)
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")
    assert "application/json" in response.json()["detail"]


def test_several_statements_in_one_request_are_refused(node: InProcessNode) -> None:
    body = {"statement": "SELECT ';';\n SELECT 2"}
    problem = expect_problem(node, body, 400, "multiple_statements")
    assert (problem["line"], problem["column"]) == (2, 2)
    assert "2 statements" in problem["detail"]
    assert (problem["condition"], problem["sqlstate"]) == ("PARSE_SYNTAX_ERROR", "42601")


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({"ansi": "true"}, "'ansi'"),
        ({"headrace.token": "x"}, "headrace.token"),
        ({"spark.headrace.session.id": "x"}, "spark.headrace.session.id"),
        ({"": "x"}, "''"),
    ],
)
def test_an_unknown_setting_of_spark_is_refused(
    node: InProcessNode, conf: dict[str, str], expected: str
) -> None:
    problem = expect_problem(node, {"statement": "SELECT 1", "conf": conf}, 400, "invalid_setting")
    assert expected in problem["detail"]


@pytest.mark.parametrize("session", ["nobody", "", "se_" + "0" * 32, "x" * 10_000])
def test_a_statement_for_an_unknown_session_is_refused(node: InProcessNode, session: str) -> None:
    expect_problem(node, {"statement": "SELECT 1", "session": session}, 404, "session_not_found")


def test_a_statement_for_an_ended_session_is_refused(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    node.fail_session(session_id, driver)
    body = {"statement": "SELECT 1", "session": session_id}
    expect_problem(node, body, 409, "session_ended")


@pytest.mark.parametrize(
    "parameters",
    [
        [{"name": "a", "value": 1}, {"value": 2}],
        [{"name": "a", "value": 1}, {"name": "a", "value": 2}],
    ],
)
def test_mixed_or_repeated_parameters_are_refused(
    node: InProcessNode, parameters: list[dict[str, Any]]
) -> None:
    expect_problem(
        node, {"statement": "SELECT :a", "parameters": parameters}, 400, "invalid_request"
    )


@pytest.mark.finding("S13")
def test_more_than_a_thousand_parameters_are_refused_at_once(node: InProcessNode) -> None:
    parameters = [{"name": f"p{number}", "value": number} for number in range(30_000)]
    begin = time.monotonic()
    body = {"statement": "SELECT :p1", "parameters": parameters}
    problem = expect_problem(node, body, 400, "invalid_request")
    assert problem["detail"] == ("The statement has 30000 parameters. At most 1000 are allowed.")
    assert time.monotonic() - begin < 25
    statement = node.submit("SELECT :p1", parameters=parameters[:1000])
    assert statement["state"] == "waiting"


def test_a_content_length_over_the_limit_is_refused_before_the_body_is_read(
    node: InProcessNode,
) -> None:
    with node.expect_no_changes():
        response = post_raw(node, f"Content-Length: {BODY_LIMIT + 1}\r\n\r\n".encode())
    assert response.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"body_too_large"' in response


def test_a_chunked_body_over_the_limit_is_refused(node: InProcessNode) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(BODY_LIMIT // 65536 + 1):
            yield b" " * 65536

    with node.expect_no_changes():
        response = httpx.post(
            node.address + STATEMENTS, content=chunks(), headers=JSON, trust_env=False, timeout=60
        )
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


def test_a_body_of_exactly_the_limit_is_accepted(node: InProcessNode) -> None:
    content = json.dumps({"statement": "SELECT 1"}).encode()
    padded = content + b" " * (BODY_LIMIT - len(content))
    assert node.http.post(STATEMENTS, content=padded, headers=JSON).status_code == 201


def test_a_statement_whose_body_breaks_off_does_not_run(node: InProcessNode) -> None:
    head = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with node.expect_no_changes():
        post_raw(node, head + b'{"statement": "SELECT 1"}', hang_up=True)


@pytest.mark.parametrize(
    "path", ["/nothing", "/api/v1/nothing", "/api/v2/statements", "/docs/nothing"]
)
def test_an_unknown_path_gets_404(node: InProcessNode, path: str) -> None:
    response = node.http.get(path)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert response.headers["content-type"] == "application/problem+json"


def test_an_unknown_method_gets_405_with_the_allowed_methods(node: InProcessNode) -> None:
    response = node.http.put(STATEMENTS, json={})
    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
    assert {"GET", "POST"} <= set(response.headers["allow"].replace(" ", "").split(","))


def post_raw(node: InProcessNode, headers_and_body: bytes, *, hang_up: bool = False) -> bytes:
    """Post raw headers and a raw body to the statements, and return the raw response."""
    url = urlsplit(node.address)
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        connection.sendall(f"POST {STATEMENTS} HTTP/1.1\r\nHost: {url.netloc}\r\n".encode())
        connection.sendall(headers_and_body)
        if hang_up:
            connection.shutdown(socket.SHUT_WR)
        response = b""
        while received := connection.recv(65536):
            response += received
            if not hang_up and b"\r\n\r\n" in response and response.endswith(b"}"):
                break
        return response
