"""Limits of connections: slow clients and idle connections cannot stop a node from serving."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until

pytestmark = pytest.mark.finding("S16")

LIMIT = 20
LONG = "10m"


@contextmanager
def connect(node: InProcessNode) -> Iterator[socket.socket]:
    url = urlsplit(node.address)
    with socket.create_connection((url.hostname, url.port), timeout=60) as connection:
        yield connection


def request_head(node: InProcessNode, *lines: str, path: str = "/health") -> bytes:
    head = [f"GET {path} HTTP/1.1", f"Host: {urlsplit(node.address).netloc}", *lines, "", ""]
    return "\r\n".join(head).encode()


def read_to_end(connection: socket.socket) -> bytes:
    """Return everything that the node sends until it closes the connection."""
    content = b""
    try:
        while received := connection.recv(65536):
            content += received
    except ConnectionResetError:
        pass
    return content


def test_a_connection_that_sends_nothing_is_closed(start_node: StartNode) -> None:
    node = start_node(http={"header_timeout": "200ms"})
    with connect(node) as connection:
        assert read_to_end(connection) == b""


def test_a_connection_without_a_further_request_is_closed(start_node: StartNode) -> None:
    node = start_node(http={"keep_alive": "200ms"})
    with connect(node) as connection:
        connection.sendall(request_head(node))
        assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"GET /health HTTP/1.1\r\nX: ", b"\r\n"])
def test_headers_that_arrive_byte_by_byte_get_408(start_node: StartNode, sent: bytes) -> None:
    node = start_node(http={"header_timeout": "500ms", "keep_alive": LONG})
    with connect(node) as connection:
        connection.sendall(sent)
        connection.settimeout(0.05)
        deadline = time.monotonic() + 60
        received = None
        while received is None and time.monotonic() < deadline:
            try:
                received = connection.recv(1000)
            except TimeoutError:
                connection.sendall(sent[-1:])
            except ConnectionResetError:
                received = b""
        assert received is not None
        assert received == b"" or received.startswith(b"HTTP/1.1 408 ")


def test_a_further_request_on_a_connection_has_the_same_time_limit(start_node: StartNode) -> None:
    node = start_node(http={"header_timeout": "300ms", "keep_alive": LONG})
    with connect(node) as connection:
        connection.sendall(request_head(node) + b"GET /health HTTP/1.1\r\n")
        content = read_to_end(connection)
    assert content.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in content


def test_a_body_that_does_not_arrive_gets_408(start_node: StartNode) -> None:
    node = start_node(http={"body_timeout": "200ms", "keep_alive": LONG})
    with connect(node) as connection, node.expect_no_changes():
        head = request_head(node, "Content-Type: application/json", "Content-Length: 100")
        connection.sendall(head.replace(b"GET /health", b"POST /api/v1/statements") + b"{")
        assert read_to_end(connection).startswith(b"HTTP/1.1 408 ")


def test_a_long_poll_outlasts_the_time_limits_of_requests(start_node: StartNode) -> None:
    node = start_node(
        http={"header_timeout": "500ms", "body_timeout": "500ms", "keep_alive": "500ms"}
    )
    session_id, _driver = node.start_session()
    # The node may be about to close a connection that the client has kept.
    url, body = f"{node.address}/api/v1/statements", {"statement": "SELECT 1"}
    options = {"session": session_id, "wait_timeout": "1500ms"}
    statement = httpx.post(url, json=body | options, trust_env=False, timeout=60).json()
    assert statement["state"] == "waiting"


@pytest.mark.parametrize(
    "start",
    [
        b"GET /health HTTP/1.1\r\nX: ",
        b"GET /",
        # Trailers and chunk extensions after the response to a request without a valid token.
        b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ",
        b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;x=",
    ],
)
def test_endless_headers_and_trailers_get_431(node: InProcessNode, start: bytes) -> None:
    with connect(node) as connection:
        connection.sendall(start)
        sent = 0
        with suppress(OSError):
            while sent < 20_000_000:
                sent += connection.send(b"x" * 65536)
        assert sent < 10_000_000
    assert node.http.get("/health").status_code == 200


def test_idle_connections_above_the_limit_do_not_stop_service(start_node: StartNode) -> None:
    node = start_node(http={"max_connections": LIMIT, "header_timeout": LONG, "keep_alive": LONG})
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(node)) for _ in range(4 * LIMIT)]
        for _ in range(3):
            with connect(node) as client:
                client.sendall(request_head(node, "Connection: close"))
                assert read_to_end(client).startswith(b"HTTP/1.1 200 ")
        assert read_to_end(connections[0]) == b""
        connections[-1].sendall(request_head(node, "Connection: close"))
        assert read_to_end(connections[-1]).startswith(b"HTTP/1.1 200 ")


def test_requests_above_the_limit_get_503_and_running_requests_continue(
    start_node: StartNode,
) -> None:
    node = start_node(http={"max_connections": LIMIT, "header_timeout": LONG, "keep_alive": LONG})
    with ExitStack() as stack:
        streams = [stack.enter_context(connect(node)) for _ in range(LIMIT - 1)]
        for stream in streams:
            stream.sendall(
                request_head(node, "Accept: text/event-stream", path="/api/v1/events?limit=1")
            )
            assert stream.recv(1000).startswith(b"HTTP/1.1 200 ")
        with connect(node) as client:
            client.sendall(request_head(node))
            assert read_to_end(client).startswith(b"HTTP/1.1 503 ")
        streams.pop(0).close()

        def is_served() -> bool:
            with connect(node) as client:
                client.sendall(request_head(node, "Connection: close"))
                return read_to_end(client).startswith(b"HTTP/1.1 200 ")

        wait_until(is_served, what="the node has noticed that a connection is closed")
        for stream in streams:
            stream.setblocking(False)
            with suppress(BlockingIOError):
                assert stream.recv(65536) != b""


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["X: " + "x" * 60_000], b"200"),
        (["X: " + "x" * 66_000], b"431"),
        (["X: " + "x" * 100_000], b"431"),
        (["X: " + "x" * 4_000] * 20, b"431"),
        (["X: x"] * 98, b"200"),
        (["X: x"] * 99, b"431"),
        (["X:"] * 20_000, b"431"),
    ],
)
@pytest.mark.parametrize("path", ["/health", "/api/v1/sessions"])
def test_too_large_and_too_many_headers_get_431_in_one_packet_too(
    node: InProcessNode, lines: list[str], status: bytes, path: str
) -> None:
    with connect(node) as connection:
        connection.sendall(request_head(node, *lines, "Connection: close", path=path)[:-2])
        with suppress(OSError):
            connection.sendall(b"\r\n")
        answer = read_to_end(connection)
    # A node can close the connection before the client has sent everything.
    assert answer.startswith(b"HTTP/1.1 " + status) or (status == b"431" and not answer)


def test_a_long_url_gets_431(node: InProcessNode) -> None:
    with connect(node) as connection:
        connection.sendall(request_head(node, path="/health?" + "x" * 100_000))
        assert read_to_end(connection)[:12] in {b"HTTP/1.1 431", b""}


@pytest.mark.parametrize("path", ["/health", "/ready", "/docs", "/api/v1/sessions", "/nowhere"])
def test_http_1_1_needs_a_host_header_on_every_path(node: InProcessNode, path: str) -> None:
    with connect(node) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n".encode())
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Host" in answer


def test_http_1_0_needs_no_host_header(node: InProcessNode) -> None:
    with connect(node) as connection:
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert read_to_end(connection).startswith(b"HTTP/1.1 200 ")
