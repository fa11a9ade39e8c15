from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.cli.scripted_node import ScriptedNode

from headrace import errors
from headrace.client.http import Client
from headrace.client.transport import Endpoint, Transport


@contextmanager
def connect(address: str, token: str | None = None, retry_seconds: float = 60) -> Iterator[Client]:
    with Client(address, token, retry_seconds=retry_seconds) as client:
        yield client


@contextmanager
def raw_server(*responses: bytes) -> Iterator[str]:
    """Start a server that sends each of the responses on one connection and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for response in responses:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(response)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def http_response(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_one_connection_serves_several_requests_even_after_an_error() -> None:
    with ScriptedNode() as node, connect(node.address) as client:
        statement = client.submit({"statement": "SELECT 1"})
        with pytest.raises(errors.StatementNotFound, match="no statement 'st_0'"):
            client.statement("st_0")
        assert client.statement(statement["id"])["state"] == "success"
        assert client.health()["node_id"] == node.node_id


def test_session_names_are_quoted_in_the_path() -> None:
    with ScriptedNode() as node, connect(node.address) as client:
        with pytest.raises(errors.SessionNotFound):
            client.session("a/b c?d")
        assert node.requests[-1].path == "/api/v1/sessions/a%2Fb%20c%3Fd"


def test_the_token_is_sent_with_each_request() -> None:
    with ScriptedNode(token="right") as node:
        with connect(node.address, "right") as client:
            assert client.sessions(limit=1) == {"items": [], "next": None}
        with connect(node.address) as client, pytest.raises(errors.Unauthorized):
            client.sessions(limit=1)


def test_a_path_in_the_address_is_kept() -> None:
    with (
        raw_server(http_response(b'{"node_id": "no_1"}')) as address,
        connect(f"{address}/spark/") as client,
    ):
        assert client.address == f"{address}/spark"
        assert client.health() == {"node_id": "no_1"}


def test_requests_are_retried_after_502_503_504_and_a_lost_connection() -> None:
    unavailable = [http_response(b"", f"{status} Unavailable") for status in (502, 503, 504)]
    with (
        raw_server(*unavailable, b"", http_response(b'{"a": 1}')) as address,
        connect(address) as client,
    ):
        assert client.health() == {"a": 1}


def test_an_error_of_a_node_that_reads_from_a_driver_is_not_repeated() -> None:
    problem = b'{"code": "results_unavailable", "message": "slow", "status": 503}'
    answers = [http_response(problem, "503 Unavailable"), http_response(b"rows")]
    with raw_server(*answers) as address, connect(address) as client:
        with pytest.raises(errors.ResultsUnavailable):
            client.download_held("st_1", {"chunk": 0}, timeout=60)
        assert b"".join(client.download_held("st_1", {"chunk": 0}, timeout=60)) == b"rows"


def test_a_store_that_stays_down_raises_store_unavailable() -> None:
    with ScriptedNode() as node, connect(node.address, retry_seconds=1) as client:
        node.outages = 1000
        with pytest.raises(errors.StoreUnavailable) as error:
            client.submit({"statement": "SELECT 1"})
        assert error.value.exit_code == 3
        keys = {request.headers["idempotency-key"] for request in node.requests}
        assert len(keys) == 1
        assert len(node.requests) > 1


def test_creating_a_session_is_not_retried_after_it_was_sent() -> None:
    with ScriptedNode() as node, connect(node.address) as client:
        node.dropped = 1
        with pytest.raises(errors.NodeUnreachable):
            client.create_session({})
        assert len(node.sessions) == 1


def test_a_refused_connection_raises_node_unreachable() -> None:
    with (
        connect("http://127.0.0.1:1", retry_seconds=0) as client,
        pytest.raises(errors.NodeUnreachable, match=r"http://127\.0\.0\.1:1: .*refused"),
    ):
        client.health()


def test_a_server_that_is_not_a_node_raises_node_unreachable() -> None:
    with (
        raw_server(http_response(b"<html>")) as address,
        connect(address) as client,
        pytest.raises(errors.NodeUnreachable, match="is not a Headrace node"),
    ):
        client.health()


@pytest.mark.parametrize(
    "partial_response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    ],
)
def test_a_download_that_ends_early_raises_node_unreachable(partial_response: bytes) -> None:
    with raw_server(partial_response) as address, connect(address) as client:
        content = b""
        with pytest.raises(errors.NodeUnreachable):
            for block in client.download("st_1", "arrow"):
                content += block
        assert b"12345".startswith(content)


def test_a_download_is_retried_after_a_lost_connection() -> None:
    with (
        raw_server(http_response(b"{}"), b"", http_response(b"rows")) as address,
        connect(address) as client,
    ):
        client.health()  # the server then closes the connection
        assert b"".join(client.download("st_1", "arrow")) == b"rows"


def test_a_download_in_a_format_that_cannot_hold_the_result_is_refused() -> None:
    problem = b'{"code": "format_cannot_hold", "detail": "No column `v`."}'
    with (
        raw_server(http_response(problem, "406 Not Acceptable")) as address,
        connect(address) as client,
        pytest.raises(errors.FormatCannotHold, match="No column `v`"),
    ):
        client.download("st_1", "parquet")


@pytest.mark.parametrize(
    "address", ["localhost", "ftp://a", "http://", "http://a:b", "http://a:99999"]
)
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(errors.InvalidSetting):
        Transport(Endpoint(address))


def test_requests_go_to_the_next_node_while_one_does_not_respond() -> None:
    with ScriptedNode() as node, connect(f"http://127.0.0.1:1, {node.address}") as client:
        assert client.health()["node_id"] == node.node_id
        assert client.address == node.address


def test_requests_go_to_the_next_node_while_one_cannot_serve() -> None:
    with (
        ScriptedNode() as draining,
        ScriptedNode() as node,
        connect(f"{draining.address},{node.address}") as client,
    ):
        draining.outages = 10**6
        statement = client.submit({"statement": "SELECT 1"})
        assert client.statement(statement["id"])["state"] == "success"
        assert client.address == node.address
        # The other node takes its turn when this one fails.
        draining.outages, node.outages = 0, 1
        with pytest.raises(errors.StatementNotFound):
            client.statement("st_0")
        assert client.address == draining.address


@pytest.mark.parametrize("address", ["http://a:1,", "http://a:1,b", "http://a:1,http://b:x"])
def test_an_invalid_address_among_several_is_refused(address: str) -> None:
    with pytest.raises(errors.InvalidSetting):
        Client(address)


def test_an_unknown_host_among_several_is_left() -> None:
    with ScriptedNode() as node, connect(f"http://no.invalid:1,{node.address}") as client:
        assert client.health()["node_id"] == node.node_id
