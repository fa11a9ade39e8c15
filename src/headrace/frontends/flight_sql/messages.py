"""Messages of Flight SQL, as bytes: commands read, results written.

They have a handful of fields, of three kinds. Source of the format: Arrow's `FlightSql.proto` and
the specification "Encoding" of Protocol Buffers.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.errors import InvalidRequest

_PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
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
