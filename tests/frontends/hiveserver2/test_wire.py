"""Messages of Thrift's binary protocol: what clients send, and what no client should."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headrace.frontends.hiveserver2.wire import (
    Call,
    InvalidMessage,
    load_protocol,
    measure_message,
    read_call,
    write_unknown_method,
)


def write_call(name: str, request: Any, *, sequence: int = 1) -> bytes:
    """Return the message of a call, as a client writes it."""
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin(name, TMessageType.CALL, sequence)
    arguments = getattr(load_protocol().TCLIService, f"{name}_args")()
    arguments.req = request
    protocol.write_struct(arguments)
    protocol.write_message_end()
    buffer.flush()
    content: bytes = buffer.getvalue()
    return content


def open_session() -> bytes:
    conf = {"use:database": "d", "set:hiveconf:a": "b" * 300}
    request = load_protocol().TOpenSessionReq(client_protocol=9, configuration=conf)
    return write_call("OpenSession", request, sequence=7)


def test_a_call_is_read_with_its_number() -> None:
    call = read_call(open_session())
    assert (call.name, call.sequence) == ("OpenSession", 7)
    assert call.request.configuration["use:database"] == "d"


def test_each_beginning_of_a_message_is_known_to_be_incomplete() -> None:
    message = open_session()
    assert {measure_message(message[:end]) for end in range(len(message))} == {None}
    assert measure_message(message) == measure_message(message + b"next") == len(message)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for content in (data, open_session()[:30] + data):
        with contextlib.suppress(InvalidMessage):
            assert measure_message(content) is None or read_call(content)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_message_with_a_changed_byte_is_read_or_refused(position: int, byte: int) -> None:
    message = bytearray(open_session())
    message[position % len(message)] = byte
    with contextlib.suppress(InvalidMessage):
        read_call(bytes(message))


HEADER = struct.pack("!II", 0x80010001, 4) + b"Nope" + struct.pack("!i", 1)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "no messages of Thrift"),
        (struct.pack("!II", 0x80020001, 4), "no messages of Thrift"),
        (struct.pack("!II", 0x80010001, 1 << 30), "no messages of Thrift"),
        # Nested structs would exhaust the stack of a reader that calls itself.
        (HEADER + b"\x0c\x00\x01" * 100_000, "levels"),
        (HEADER + b"\x0f\x00\x01\x0f" + b"\x00\x00\x00\x01\x0f" * 1000, "levels"),
        (HEADER + b"\x05\x00\x01", "unknown type 5"),
        (HEADER + b"\x0b\x00\x01\xff\xff\xff\xff", "negative size"),
        (struct.pack("!II", 0x80010002, 4) + b"Nope" + b"\0" * 5, "no call"),
    ],
)
def test_what_is_no_call_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        read_call(content)


def test_an_unknown_call_is_answered_so_that_the_client_goes_on() -> None:
    call = read_call(HEADER + b"\0")
    assert call == Call("Nope", 1, None)
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(write_unknown_method(call)))
    assert protocol.read_message_begin() == ("Nope", TMessageType.EXCEPTION, 1)
    error = TApplicationException()
    protocol.read_struct(error)
    assert error.type == TApplicationException.UNKNOWN_METHOD
