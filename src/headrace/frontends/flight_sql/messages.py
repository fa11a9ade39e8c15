"""Messages of Flight and Flight SQL, as bytes: commands read, results written.

They have a handful of fields, of three kinds, and rows must not be copied often. Source of the
format: Arrow's `Flight.proto` and `FlightSql.proto`, and the specification "Encoding" of Protocol
Buffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from headrace.errors import InvalidRequest

_PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_COMMAND = 2
"""Type of a descriptor with a command."""
_DATA_BODY = 1000
_IPC_START = struct.Struct("<ii")
_MAX_VARINT = 10
"""Longest number in bytes."""


class InvalidFlightMessage(InvalidRequest):
    """The bytes are no message of Flight SQL."""

    code = "invalid_flight_message"


class FlightCommand(NamedTuple):
    """A command, and the values of its fields by number: integers, or bytes."""

    name: str
    fields: dict[int, list[int | bytes]]

    def text(self, number: int) -> str | None:
        """Return a text; None: it is not set."""
        data = self.data(number)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            raise InvalidFlightMessage(f"Field {number} of {self.name} is not UTF-8.") from None

    def texts(self, number: int) -> list[str]:
        """Return a repeated text."""
        return [
            each.decode("utf-8", "replace")
            for each in self.fields.get(number, [])
            if isinstance(each, bytes)
        ]

    def data(self, number: int) -> bytes | None:
        """Return bytes; None: they are not set."""
        value = self.fields.get(number, [None])[-1]
        return value if isinstance(value, bytes) else None

    def flag(self, number: int) -> bool:
        """Return a boolean."""
        return bool(self.fields.get(number, [0])[-1])

    def numbers(self, number: int) -> list[int]:
        """Return a repeated integer, packed or not."""
        found: list[int] = []
        for value in self.fields.get(number, []):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                item, at = _read_varint(value, at)
                found.append(item)
        return found


def read_command(data: bytes) -> FlightCommand:
    """Return the command in a `google.protobuf.Any`. Raise InvalidFlightMessage if it is none."""
    packed = FlightCommand("Any", read_fields(data))
    url = packed.text(1) or ""
    if not url.startswith(_PREFIX):
        raise InvalidFlightMessage("The bytes are no command of Flight SQL.")
    return FlightCommand(url.removeprefix(_PREFIX), read_fields(packed.data(2) or b""))


def write_command(name: str, fields: bytes) -> bytes:
    """Return a message as a `google.protobuf.Any`."""
    return write_field(1, _PREFIX + name) + write_field(2, fields)


def write_field(number: int, value: int | str | bytes) -> bytes:
    """Return a field. An integer may be negative."""
    if isinstance(value, int):
        return _write_varint(number << 3 | _VARINT) + _write_varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return _write_varint(number << 3 | _BYTES) + _write_varint(len(data)) + data


def read_fields(data: bytes) -> dict[int, list[int | bytes]]:
    """Return the values of a message by the number of the field. Raise InvalidFlightMessage."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind, value = key & 7, None
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            fields.setdefault(key >> 3, []).append(value)
            continue
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        elif kind in {_FIXED32, _FIXED64}:
            size = 4 if kind == _FIXED32 else 8
        else:
            raise InvalidFlightMessage(f"The message has a field of the unknown kind {kind}.")
        if at + size > len(data):
            raise InvalidFlightMessage("The message is not complete.")
        fields.setdefault(key >> 3, []).append(data[at : at + size])
        at += size
    return fields


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position in range(_MAX_VARINT):
        if at + position >= len(data):
            raise InvalidFlightMessage("The message is not complete.")
        byte = data[at + position]
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return value, at + position + 1
    raise InvalidFlightMessage("The message has a number of more than ten bytes.")


def _write_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


class FlightInfo(NamedTuple):
    """What a client learns about rows, in a message of Flight."""

    schema: pa.Schema | None
    """None: not known yet."""
    descriptor: bytes
    """Command by which the client gets this message again."""
    ticket: bytes | None
    """None: there are no rows yet."""
    rows: int = -1
    """Number of rows; -1: not known."""

    def write(self) -> bytes:
        """Return the message. Its endpoint has no location: rows come from where it was sent."""
        content = write_field(2, write_descriptor(self.descriptor))
        if self.schema is not None:
            content = write_field(1, write_schema(self.schema)) + content
        if self.ticket is not None:
            content += write_field(3, write_field(1, write_field(1, self.ticket)))
        return content + write_field(4, self.rows) + write_field(5, -1) + write_field(6, 1)


def write_descriptor(command: bytes) -> bytes:
    """Return a `FlightDescriptor` with a command."""
    return write_field(1, _COMMAND) + write_field(2, command)


def write_schema(schema: pa.Schema) -> bytes:
    """Return a schema as Flight writes it outside of streams: as a message of Arrow IPC."""
    content: bytes = schema.serialize().to_pybytes()
    return content


def write_data(message: pa.Buffer) -> bytes:
    """Return a message of Arrow IPC as the `FlightData` of a stream of rows."""
    view = memoryview(message)
    start = _IPC_START.size
    _continuation, size = _IPC_START.unpack_from(view)
    header, body = view[start : start + size], view[start + size :]
    return b"".join(
        (
            *(_write_key(2), _write_varint(len(header)), header),
            *(_write_key(_DATA_BODY), _write_varint(len(body)), body),
        )
    )


def has_columns(message: bytes) -> bool:
    """Return whether the first message of a stream of `FlightData` has a schema with columns."""
    content = _read_ipc(message)
    if not content:
        return False
    with _convert_errors():
        return len(pa.ipc.read_schema(pa.py_buffer(content))) > 0


def read_data(messages: Iterable[bytes]) -> pa.Table:
    """Return the rows of a stream of `FlightData`. Raise InvalidFlightMessage if it is none."""
    stream = b"".join(map(_read_ipc, messages))
    with _convert_errors():
        table = pa.ipc.open_stream(stream).read_all()
        table.validate(full=True)
    return table


def _read_ipc(message: bytes) -> bytes:
    """Return a message of Arrow IPC; empty if a `FlightData` has none."""
    data = FlightCommand("FlightData", read_fields(message))
    header = data.data(2)
    if not header:
        return b""
    padding = b"\0" * (-len(header) % 8)
    start = _IPC_START.pack(-1, len(header) + len(padding))
    return b"".join((start, header, padding, data.data(_DATA_BODY) or b""))


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidFlightMessage(f"The rows cannot be read: {str(error)[:200]}") from None


def _write_key(number: int) -> bytes:
    return _write_varint(number << 3 | _BYTES)


def write_double(number: int, value: float) -> bytes:
    """Return a field with a floating-point number."""
    return _write_varint(number << 3 | _FIXED64) + struct.pack("<d", value)
