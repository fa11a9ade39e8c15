"""Messages of Thrift's binary protocol, as bytes: calls read, replies written.

Source of the format: the specification "Thrift Binary protocol encoding" of Apache Thrift.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TException, TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headrace.errors import HeadraceError, InvalidRequest

_VERSION = 0x80010000
_VERSION_MASK = 0xFFFF0000
_MAX_DEPTH = 32
"""Deepest nesting of a message: those of HiveServer2 have 5 levels."""
_MAX_NAME = 64
"""Longest name of a call in bytes."""
STOP = b"\x00"
_STRUCT_FIELD = struct.Struct("!BH")
_HEADER = struct.Struct("!II")
_INT = struct.Struct("!I")

_FIXED_BYTES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
"""Sizes of the types that have one: boolean, byte, double, i16, i32 and i64."""
_STRING, _STRUCT = 11, 12
_KINDS_OF_ITEMS = {13: 2, 14: 1, 15: 1}
"""Number of the types that a map, a set and a list name."""


class InvalidMessage(InvalidRequest):
    """The bytes are no message of Thrift's binary protocol."""

    code = "invalid_message"


class Call(NamedTuple):
    """A call of a client."""

    name: str
    sequence: int
    """Number that the client has given to the call; the reply repeats it."""
    request: Any
    """The argument; None if there is no call with this name."""


@cache
def load_protocol() -> Any:
    """Return the module with the classes of the messages."""
    return thriftpy2.load(
        str(Path(__file__).with_name("hiveserver2.thrift")), module_name="headrace_hs2_thrift"
    )


def measure_message(data: bytes | bytearray | memoryview) -> int | None:
    """Return the length of the message with which the bytes begin; None: more bytes follow.

    Raise InvalidMessage if the bytes begin no message, or one that is nested too deeply.
    """
    try:
        version, length = _HEADER.unpack_from(data, 0)
    except struct.error:
        return None
    if version & _VERSION_MASK != _VERSION or length > _MAX_NAME:
        raise InvalidMessage("The connection carries no messages of Thrift's binary protocol.")
    try:
        return _skip(data, _HEADER.size + length + _INT.size, _STRUCT, 0)
    except (struct.error, IndexError):
        return None


def _skip(data: bytes | bytearray | memoryview, at: int, kind: int, depth: int) -> int:
    """Return the position behind a value. Raise IndexError if it is not complete."""
    if kind in _FIXED_BYTES:
        return _within(data, at + _FIXED_BYTES[kind])
    if kind == _STRING:
        return _within(data, at + _INT.size + _size(data, at))
    if depth > _MAX_DEPTH:
        raise InvalidMessage(f"The message has more than {_MAX_DEPTH} levels.")
    if kind == _STRUCT:
        while field := data[at]:
            at = _skip(data, at + _STRUCT_FIELD.size, field, depth + 1)
        return at + 1
    if kind not in _KINDS_OF_ITEMS:
        raise InvalidMessage(f"The message has a value of the unknown type {kind}.")
    kinds = tuple(data[at + number] for number in range(_KINDS_OF_ITEMS[kind]))
    return _skip_items(data, at + len(kinds), kinds, depth + 1)


def _skip_items(
    data: bytes | bytearray | memoryview, at: int, kinds: tuple[int, ...], depth: int
) -> int:
    """Return the position behind the values of a list or a map, which begin with their number."""
    count, at = _size(data, at), at + _INT.size
    if all(kind in _FIXED_BYTES for kind in kinds):
        return _within(data, at + count * sum(_FIXED_BYTES[kind] for kind in kinds))
    for _number in range(count):
        for kind in kinds:
            at = _skip(data, at, kind, depth)
    return at


def _size(data: bytes | bytearray | memoryview, at: int) -> int:
    size: int = _INT.unpack_from(data, at)[0]
    if size > 0x7FFFFFFF:
        raise InvalidMessage("The message has a negative size.")
    return size


def _within(data: bytes | bytearray | memoryview, end: int) -> int:
    if end > len(data):
        raise IndexError(end)
    return end


def read_call(message: bytes) -> Call:
    """Return the call of a whole message. Raise InvalidMessage if it is none."""
    if measure_message(message) != len(message):
        raise InvalidMessage("The message is not complete, or has further bytes behind its end.")
    protocol = TCyBinaryProtocol(TCyMemoryBuffer(message))
    service = load_protocol().TCLIService
    try:
        name, kind, sequence = protocol.read_message_begin()
        if kind not in {TMessageType.CALL, TMessageType.ONEWAY}:
            raise InvalidMessage("The message is no call.")
        if name not in service.thrift_services:
            return Call(name, sequence, None)
        arguments = getattr(service, f"{name}_args")()
        protocol.read_struct(arguments)
    except (TException, UnicodeDecodeError, AttributeError, ValueError, EOFError) as error:
        raise InvalidMessage(f"The message cannot be read: {error}") from None
    return Call(name, sequence, arguments.req)


def write_struct(value: Any) -> bytes:
    """Return the bytes of a struct of the protocol."""
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_struct(value)
    buffer.flush()
    content: bytes = buffer.getvalue()
    return content


def write_reply(call: Call, response: bytes) -> bytes:
    """Return the message that answers a call. `response` are the bytes of its struct."""
    return b"".join((_begin(call, TMessageType.REPLY), write_field(_STRUCT, 0), response, STOP))


def write_unknown_method(call: Call) -> bytes:
    """Return the message for a call that does not exist: clients probe for calls."""
    text = f"Invalid method name: '{call.name}'"
    return _write_exception(call, TApplicationException.UNKNOWN_METHOD, text)


def write_refusal(message: bytes, error: HeadraceError) -> bytes:
    """Return the message that refuses one that could not be read.

    Args:
        message: The begin of the client's message, which has the name and the number of its call.
    """
    call = Call("", 0, None)
    with suppress(struct.error, UnicodeDecodeError):
        version, length = _HEADER.unpack_from(message)
        if version & _VERSION_MASK == _VERSION and length <= _MAX_NAME:
            end = _HEADER.size + length
            call = Call(
                message[_HEADER.size : end].decode(), _INT.unpack_from(message, end)[0], None
            )
    text = f"[{error.code}] {error.message}"
    return _write_exception(call, TApplicationException.PROTOCOL_ERROR, text)


def _write_exception(call: Call, kind: int, text: str) -> bytes:
    return _begin(call, TMessageType.EXCEPTION) + write_struct(TApplicationException(kind, text))


def write_field(kind: int, number: int) -> bytes:
    """Return the bytes that begin a field of a struct."""
    return _STRUCT_FIELD.pack(kind, number)


def _begin(call: Call, kind: int) -> bytes:
    name = call.name.encode()
    sequence = _INT.pack(call.sequence & 0xFFFFFFFF)
    return _HEADER.pack(_VERSION | kind, len(name)) + name + sequence
