"""Every status that a route can answer is in the OpenAPI document."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from types import ModuleType
from typing import Any

import pytest
from fastapi.routing import APIRoute, APIRouter
from tests.frontends.rest.raised_errors import errors_of
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.errors import (
    AlreadyEnded,
    DeploymentNotFound,
    FormatCannotHold,
    HeadraceError,
    InvalidResult,
    NoResult,
    QueueFull,
    ResultGone,
    ResultNotReady,
    SessionNotFound,
    StoreUnavailable,
    TooManySessions,
    TooManyStreams,
)
from headrace.frontends.http.errors import describe_error
from headrace.frontends.opensearch import async_query
from headrace.frontends.opensearch.async_query import DatasourceNotFound
from headrace.frontends.rest.routes import jobs, sessions, statements, streams

Json = dict[str, Any]
_OF_ROWS = {FormatCannotHold, InvalidResult, NoResult, ResultGone, ResultNotReady}
IMPOSSIBLE: dict[str, set[type[HeadraceError]]] = {
    "plan_jobs": {DeploymentNotFound},  # it reads the deployment that it has just stored
    "show_async_query": {NoResult, ResultNotReady},  # it reads rows of successes only
    "list_livy_statements": _OF_ROWS,  # an error of the rows is the output of the statement
    "show_livy_statement": _OF_ROWS,
}
"""Errors that the called code can raise, but not for this route."""


@pytest.fixture(scope="module")
def document(node: InProcessNode) -> Json:
    answer: Json = node.http.get("/api/v1/openapi.json").json()
    return answer


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def routes(routers: list[Any]) -> Iterator[APIRoute]:
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                yield route


def all_routes() -> list[APIRoute]:
    from headrace.frontends import app

    modules = [each for each in vars(app).values() if isinstance(each, ModuleType)]
    routers = [each for module in modules for each in vars(module).values()]
    return list(routes([each for each in routers if isinstance(each, APIRouter)]))


def status_of(route: APIRoute, error: type[HeadraceError]) -> int:
    """Return the status with which a route answers an error."""
    is_opensearch = route.endpoint.__module__ == async_query.__name__
    return 400 if is_opensearch and error in async_query._JAVA_CLASSES else error.status


def test_every_error_that_the_code_of_a_route_can_raise_is_documented(document: Json) -> None:
    documented = {
        operation["operationId"]: operation["responses"] for *_, operation in operations(document)
    }
    missing, count = [], 0
    for route in all_routes():
        if route.name not in documented:
            continue
        for error in errors_of(route.endpoint) - IMPOSSIBLE.get(route.name, set()):
            count += 1
            if str(status_of(route, error)) not in documented[route.name]:
                missing.append(f"{route.name}: {status_of(route, error)} {error.__name__}")
    assert sorted(missing) == []
    assert count > 150


def test_the_errors_of_a_route_are_found_through_its_services() -> None:
    """The test above finds nothing if calls are not followed."""
    assert {QueueFull, TooManySessions} <= errors_of(statements.submit_statement)
    assert {QueueFull, DatasourceNotFound} <= errors_of(async_query.create_async_query)
    assert SessionNotFound in errors_of(sessions.show_session)
    assert TooManyStreams in errors_of(streams.act_on_stream)
    assert AlreadyEnded in errors_of(statements.cancel_statement)
    assert errors_of(jobs.list_jobs) == set()


def call(node: InProcessNode, method: str, path: str, operation: Json, **options: Any) -> int:
    """Call an operation, and return the status. Its objects do not exist."""
    body = {"json": {}} if "requestBody" in operation else {}
    response = node.http.request(method, re.sub(r"{\w+}", "x", path), **{**body, **options})
    return response.status_code


REQUESTS: dict[int, Json] = {
    401: {"headers": {"Authorization": "Bearer wrong"}},
    403: {"headers": {"Origin": "http://elsewhere.example"}},
    421: {"headers": {"Host": "elsewhere.example"}},
}
"""What makes the middleware refuse any request, by the status."""


@pytest.mark.parametrize("status", REQUESTS)
def test_what_middleware_answers_to_every_request_is_documented(
    start_node: StartNode, document: Json, status: int
) -> None:
    node = start_node(token="right")
    answered = 0
    for method, path, operation in operations(document):
        options = dict(REQUESTS[status])
        options["headers"] = {"Authorization": "Bearer right", **options["headers"]}
        actual = call(node, method, path, operation, **options)
        answered += actual == status
        assert str(actual) in operation["responses"], (method, path, actual)
    public = {"/health", "/ready", "/api/v1/sign-in"} if status == 401 else set()
    assert answered == sum(path not in public for _, path, _ in operations(document))


def test_a_body_of_another_type_and_an_unknown_parameter_have_documented_answers(
    node: InProcessNode, document: Json
) -> None:
    for method, path, operation in operations(document):
        requests: list[Json] = [{"params": {"no_such_parameter": "1"}}]
        if "requestBody" in operation:
            requests.append({"content": b"x", "headers": {"Content-Type": "text/plain"}})
        for options in requests:
            actual = call(node, method, path, operation, **options)
            assert str(actual) in operation["responses"], (method, path, actual)


def test_an_outage_of_the_store_has_a_documented_answer(
    start_node: StartNode, document: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node()

    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable

    answered = set()
    with monkeypatch.context() as patch:
        for name in ("read", "write", "ping", "check_writable"):
            patch.setattr(node.database, name, fail)
        for method, path, operation in operations(document):
            actual = call(node, method, path, operation)
            answered.add(actual)
            assert str(actual) in operation["responses"], (method, path, actual)
    assert 503 in answered


def test_a_fault_of_the_node_is_documented_for_every_call(document: Json) -> None:
    status = str(describe_error(RuntimeError("a fault")).status)
    assert [path for _, path, each in operations(document) if status not in each["responses"]] == []


def test_a_large_body_has_a_documented_answer_for_every_call(
    node: InProcessNode, document: Json
) -> None:
    host, port = node.address.removeprefix("http://").split(":")
    for method, path, operation in operations(document):
        connection = HTTPConnection(host, int(port), timeout=30)
        connection.putrequest(method, re.sub(r"{\w+}", "x", path))
        connection.putheader("Content-Length", str(1 << 30))
        connection.endheaders()
        assert connection.getresponse().status == 413, path
        connection.close()
        assert "413" in operation["responses"], path


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: a\r\n", 408),
        (b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    ],
    ids=["408", "431"],
)
def test_what_the_server_answers_without_the_app_is_documented_for_every_call(
    start_node: StartNode, document: Json, data: bytes, status: int
) -> None:
    node = start_node(http={"header_timeout": "200ms"})
    host, port = node.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(data)
        assert client.recv(100).startswith(f"HTTP/1.1 {status}".encode())
    for _, path, operation in operations(document):
        assert str(status) in operation["responses"], path
