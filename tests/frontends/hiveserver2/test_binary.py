"""Connections without HTTP: sign-in, frames, and what no client should send."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import psutil
import pytest
from tests.support.hiveserver2 import THRIFT, HiveNode, SocketClient, write_call
from tests.support.made_results import inline_result
from tests.support.waiting import wait_until
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyMemoryBuffer

_MIB = 1024 * 1024


@pytest.fixture
def raw(server: HiveNode) -> Iterator[socket.socket]:
    """Yield a connection on which nothing has been sent."""
    with socket.create_connection(("127.0.0.1", server.binary.port), timeout=60) as connection:
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
        struct.pack("!BI", 1, 1 << 31),
        struct.pack("!BI", 1, 5) + b"PLAIN" + struct.pack("!BI", 2, 1 << 30),
        struct.pack("!II", 0x80020001, 4) + b"Nope" + bytes(8),
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_sign_in_ends_the_connection(raw: socket.socket, content: bytes) -> None:
    raw.sendall(content)
    raw.shutdown(socket.SHUT_WR)
    assert read_to_end(raw) == b""


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD"])
def test_a_client_that_speaks_http_gets_an_answer_that_names_the_cause(
    raw: socket.socket, method: str
) -> None:
    raw.sendall(f"{method} /cliservice HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = read_to_end(raw)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"[invalid_message]" in answer
    assert b"transportMode" in answer


def read_refusal(client: SocketClient) -> tuple[str, int, str]:
    """Return the name and the number of the call that is refused, and the text."""
    (size,) = struct.unpack("!I", client.receive(4))
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(client.receive(size)))
    name, kind, number = protocol.read_message_begin()
    assert kind == TMessageType.EXCEPTION
    error = TApplicationException()
    protocol.read_struct(error)
    assert error.type == TApplicationException.PROTOCOL_ERROR
    return name, number, error.message


@pytest.mark.parametrize(
    "message",
    [
        b"not thrift",
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!II", 0x80020001, 4) + b"Nope" + bytes(8),
        struct.pack("!II", 0x80010001, 7) + b"GetInfo" + struct.pack("!I", 9) + b"\x0c\x00",
    ],
)
def test_a_frame_that_is_no_call_is_refused_and_ends_its_connection_and_no_other(
    server: HiveNode, message: bytes
) -> None:
    other, client = server.over_socket(), server.over_socket()
    other.open()
    client.socket.sendall(struct.pack("!I", len(message)) + message)
    name, number, text = read_refusal(client)
    assert text.startswith("[invalid_message]")
    assert (name, number) == (("GetInfo", 9) if b"GetInfo" in message else ("", 0))
    assert read_to_end(client.socket) == b""
    info = other.call("GetInfo", sessionHandle=other.session, infoType=18)
    assert info.status.statusCode == THRIFT.TStatusCode.SUCCESS_STATUS
    client.close()
    other.close()


@pytest.mark.parametrize("frame", [struct.pack("!I", 1 << 31), struct.pack("!I", 100) + b"cut"])
def test_a_frame_without_an_end_closes_the_connection(server: HiveNode, frame: bytes) -> None:
    client = server.over_socket()
    client.socket.sendall(frame)
    client.socket.shutdown(socket.SHUT_WR)
    assert read_to_end(client.socket) == b""
    client.close()


def test_a_frame_that_is_too_long_is_refused_and_the_connection_goes_on(
    server: HiveNode,
) -> None:
    client = server.over_socket()
    client.open()
    before = memory()
    for number in (7, 8):
        message = write_call(
            "ExecuteStatement",
            number,
            sessionHandle=client.session,
            statement="x" * 60 * _MIB,
        )
        client.socket.sendall(struct.pack("!I", len(message)) + message)
        name, answered, text = read_refusal(client)
        assert (name, answered) == ("ExecuteStatement", number)
        assert text.startswith("[invalid_message] A frame has 629")
        assert "16777216" in text
    # The test itself holds a message and its copies.
    assert memory() - before < 400 * _MIB
    assert client.call("GetInfo", sessionHandle=client.session, infoType=17).status.statusCode == 0
    client.close()


def memory() -> int:
    """Return the memory of this process in bytes."""
    return int(psutil.Process().memory_info().rss)


def test_a_message_in_parts_is_read(server: HiveNode) -> None:
    client = server.over_socket()
    message = write_call("OpenSession", 1, client_protocol=9)
    frame = struct.pack("!I", len(message)) + message
    for position in range(len(frame)):
        client.socket.sendall(frame[position : position + 1])
    (size,) = struct.unpack("!I", client.receive(4))
    assert b"headrace" in client.receive(size)
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


def test_a_thousand_idle_connections_cost_no_threads_and_little_memory(
    server: HiveNode,
) -> None:
    """Some have signed in, and others have sent nothing."""
    threads, before = threading.active_count(), memory()
    with ExitStack() as opened:
        address = ("127.0.0.1", server.binary.port)
        for _number in range(900):
            opened.enter_context(socket.create_connection(address, timeout=60))
        clients = [server.over_socket() for _number in range(100)]
        assert clients[-1].open().status.statusCode == 0
        wait_until(lambda: len(server.binary._connections) == 1000)
        # A new driver of the user or a slow read may start a few threads of pools.
        assert threading.active_count() - threads < 20
        assert memory() - before < 100 * _MIB
        for client in clients:
            client.close()
    wait_until(lambda: len(server.binary._connections) == 0)


def test_an_error_at_the_sign_in_has_the_code(server: HiveNode) -> None:
    for sent in (b"\0token\0wrong", b"no separators", b"root\0ada\0x", b"\xff\0\xff\0\xff"):
        with socket.create_connection(("127.0.0.1", server.binary.port), timeout=60) as connection:
            connection.sendall(struct.pack("!BI", 1, 5) + b"PLAIN")
            connection.sendall(struct.pack("!BI", 2, len(sent)) + sent)
            answer = read_to_end(connection)
        assert answer[0] == 3
        assert b"[unauthorized]" in answer


def ask_for_state(operation: Any, number: int) -> bytes:
    """Return the frame of a question that the node holds for half a second at most."""
    message = write_call(
        "GetOperationStatus", number, operationHandle=operation, getProgressUpdate=True
    )
    return struct.pack("!I", len(message)) + message


def read_number(client: SocketClient) -> int:
    """Return the number of the call that is answered next."""
    (size,) = struct.unpack("!I", client.receive(4))
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(client.receive(size)))
    _name, kind, number = protocol.read_message_begin()
    assert kind == TMessageType.REPLY
    return int(number)


@pytest.mark.parametrize("cuts", [[], [0], [3], [30]])
def test_calls_are_answered_in_their_order(server: HiveNode, cuts: list[int]) -> None:
    """A client may repeat a question for an ended statement before it has earlier answers."""
    client, other = server.over_socket(), server.over_socket()
    client.open()
    other.open()
    ended = client.execute("SELECT 1").operationHandle
    server.run(ended, inline_result([("n", "long")], [[1], [2]]))
    client.fetch(ended, 1)
    for number in range(10):
        client.socket.sendall(ask_for_state(ended, number))
        assert read_number(client) == number

    waiting = client.execute("SELECT 2").operationHandle
    first, second = ask_for_state(waiting, 1001), ask_for_state(ended, 1002)
    sent = first + second + ask_for_state(ended, 1003)
    ends = [*(len(first) + cut for cut in cuts), len(first + second), len(sent)]
    for start, end in pairwise([0, *ends]):
        client.socket.sendall(sent[start:end])
        # When the node answers another client, it has read what arrived before.
        other.call("GetInfo", sessionHandle=other.session, infoType=18)
    assert [read_number(client) for _call in range(3)] == [1001, 1002, 1003]
    client.close_operations()
    client.close()
    other.close()
