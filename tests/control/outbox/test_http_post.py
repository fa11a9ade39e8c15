"""One request to an endpoint: which addresses it reaches, and how long it takes at most."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import Authority
from tests.support.webhook_receiver import receive_webhooks

from headrace.control.outbox.http_post import post

LOOPBACK = [ip_network("127.0.0.0/8")]


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that sets the successive answers of the DNS, and returns the queries."""

    def resolve(*answers: list[str]) -> list[str]:
        remaining, queries = list(answers), list[str]()

        def answer(host: str, port: int, *_arguments: Any, **_options: Any) -> Any:
            queries.append(host)
            addresses = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

        monkeypatch.setattr("headrace.control.outbox.http_post.socket.getaddrinfo", answer)
        return queries

    return resolve


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the addresses to which a request connects; no connection is made."""
    addresses: list[str] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        assert timeout > 0
        addresses.append(address[0])
        raise ConnectionRefusedError(111, "refused by the test")

    monkeypatch.setattr("headrace.control.outbox.http_post.socket.create_connection", connect)
    return addresses


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "::1", "::", "fe80::1"),
        *("fd00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "ff02::1"),
    ],
)
def test_an_address_that_is_not_public_is_not_connected(
    resolve: Callable[..., list[str]], connected: list[str], address: str
) -> None:
    resolve(["93.184.215.14", address])
    outcome = post("https://hooks.test/", b"", {}, seconds=60)
    assert outcome.error is not None
    assert "is not public" in outcome.error
    assert connected == []


def test_the_connection_goes_to_the_address_that_was_checked(
    resolve: Callable[..., list[str]], connected: list[str]
) -> None:
    queries = resolve(["93.184.215.14"], ["127.0.0.1"])
    post("https://hooks.test/", b"", {}, seconds=60)
    assert (queries, connected) == (["hooks.test"], ["93.184.215.14"])


def test_the_address_of_a_later_attempt_is_checked_again(
    resolve: Callable[..., list[str]], connected: list[str]
) -> None:
    resolve(["93.184.215.14"], ["127.0.0.1"])
    post("https://hooks.test/", b"", {}, seconds=60)
    again = post("https://hooks.test/", b"", {}, seconds=60)
    assert again.error is not None
    assert "is not public" in again.error
    assert connected == ["93.184.215.14"]


def test_the_name_of_the_host_stays_in_tls_and_in_the_request(
    resolve: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(["127.0.0.1"])
    authority = Authority(tmp_path)
    pair = authority.issue("server", "hooks.test")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    with receive_webhooks(context) as receiver:
        send = lambda host: post(  # noqa: E731
            f"https://{host}:{receiver.port}/a?b=c",
            b"{}",
            {},
            seconds=60,
            private_networks=LOOPBACK,
        )
        unknown = send("hooks.test")
        assert unknown.error is not None
        assert "the certificate of the endpoint is not valid" in unknown.error
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
        assert send("hooks.test").error is None
        assert names[-1] == "hooks.test"
        [message] = receiver.messages
        assert message.path == "/a?b=c"
        assert message.headers["host"] == f"hooks.test:{receiver.port}"
        other = send("other.test")
        assert other.error is not None
        assert "not valid" in other.error


@contextmanager
def _serve_bytes(send: Callable[[socket.socket], None]) -> Iterator[str]:
    """Accept connections, and let `send` write to each of them."""

    def serve() -> None:
        while True:
            try:
                connection, _address = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    send(connection)
                except OSError:
                    continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def _trickle(connection: socket.socket) -> None:
    """Send a byte of the headers every now and then, for ever."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X")
        threading.Event().wait(0.02)


def test_an_endpoint_that_sends_a_byte_now_and_then_is_cut_off() -> None:
    with _serve_bytes(_trickle) as url:
        start = time.monotonic()
        outcome = post(url, b"{}", {}, seconds=0.3, private_networks=LOOPBACK)
    assert outcome.error == "no complete response within 0.3 s"
    assert time.monotonic() - start < 60


def test_a_large_response_is_read_up_to_a_limit() -> None:
    def send(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            connection.sendall(b"a" * 65536)

    with _serve_bytes(send) as url:
        outcome = post(url, b"{}", {}, seconds=60, private_networks=LOOPBACK)
    assert (outcome.status, outcome.error, len(outcome.body)) == (200, None, 4096)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH secret-1\r\n\r\n"])
def test_an_endpoint_that_speaks_something_else_is_an_error_without_its_text(answer: bytes) -> None:
    def send(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    with _serve_bytes(send) as url:
        outcome = post(url, b"{}", {}, seconds=60, private_networks=LOOPBACK)
    assert outcome.status is None
    assert outcome.error is not None
    assert "secret-1" not in outcome.error


def test_a_name_that_does_not_resolve_is_an_error() -> None:
    outcome = post("https://hooks.invalid/", b"{}", {}, seconds=60)
    assert outcome.error == "the host name cannot be resolved"
