"""Connections without HTTP: sign-in, frames, and what no client should send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from tests.support.hiveserver2 import THRIFT, HiveNode, SocketClient, write_call

_MIB = 1024 * 1024


@pytest.fixture
def raw(server: HiveNode) -> Iterator[socket.socket]:
    """Yield a connection on which nothing has been sent."""
    with socket.create_connection(("127.0.0.1", server.binary.port), timeout=30) as connection:
        yield connection


def read_to_end(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    content = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return content
        if not part:
            return content
        content += part


def test_an_unknown_mechanism_is_refused_with_the_allowed_one(raw: socket.socket) -> None:
    raw.sendall(struct.pack("!BI", 1, 6) + b"GSSAPI")
    assert b"Only the mechanism PLAIN" in read_to_end(raw)


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        struct.pack("!BI", 1, 1 << 31),
        struct.pack("!BI", 1, 5) + b"PLAIN" + struct.pack("!BI", 2, 1 << 30),
        struct.pack("!II", 0x80020001, 4) + b"Nope" + bytes(8),
        b"\x00" * 100,
    ],
)
def test_what_is_no_sign_in_ends_the_connection(raw: socket.socket, content: bytes) -> None:
    raw.sendall(content)
    raw.shutdown(socket.SHUT_WR)
    assert len(read_to_end(raw)) < 100


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack("!I", 17 * _MIB),
        struct.pack("!I", 1 << 31),
        struct.pack("!I", 10) + b"not thrift",
        struct.pack("!I", 100) + b"cut",
    ],
)
def test_a_frame_that_is_no_call_ends_its_connection_and_no_other(
    server: HiveNode, frame: bytes
) -> None:
    other, client = server.over_socket(), server.over_socket()
    other.open()
    client.socket.sendall(frame)
    client.socket.shutdown(socket.SHUT_WR)
    assert read_to_end(client.socket) == b""
    info = other.call("GetInfo", sessionHandle=other.session, infoType=18)
    assert info.status.statusCode == THRIFT.TStatusCode.SUCCESS_STATUS
    client.close()
    other.close()


def test_a_message_in_parts_is_read(server: HiveNode) -> None:
    client = server.over_socket()
    message = write_call("OpenSession", 1, client_protocol=9)
    frame = struct.pack("!I", len(message)) + message
    for position in range(len(frame)):
        client.socket.sendall(frame[position : position + 1])
    (size,) = struct.unpack("!I", client.receive(4))
    assert b"headrace" in client.receive(size)
    client.close()


def test_a_statement_that_is_too_large_is_refused_and_the_connection_goes_on(
    server: HiveNode,
) -> None:
    client = server.over_socket()
    client.open()
    status = client.execute(f"SELECT '{'x' * 2 * _MIB}'").status
    assert status.statusCode == THRIFT.TStatusCode.ERROR_STATUS
    assert status.errorMessage.startswith("[statement_too_large]")
    operation = client.execute("SELECT 1").operationHandle
    assert client.call("CancelOperation", operationHandle=operation).status.statusCode == 0
    client.close()


def test_without_sasl_nobody_is_served_unless_the_node_needs_no_credentials(
    raw: socket.socket,
) -> None:
    raw.sendall(write_call("OpenSession", 1, client_protocol=9))
    assert read_to_end(raw) == b""


def test_a_refused_client_may_try_again(server: HiveNode) -> None:
    for password in ("wrong", "", "x" * 10_000):
        refused = SocketClient(server.binary.port, password)
        assert not refused.is_signed_in
        refused.close()
    client = server.over_socket()
    assert client.is_signed_in
    client.close()


def test_idle_connections_are_served_beside_others(server: HiveNode) -> None:
    clients = [server.over_socket() for _number in range(100)]
    clients[0].open()
    assert clients[0].session is not None
    for client in clients:
        client.close()
