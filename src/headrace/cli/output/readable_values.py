"""Values for people: timestamps in the time zone of the session, binary values as `[CA FE]`.

The API writes a timestamp in UTC and a binary value as base64. Formats for programs keep this form,
and so do timestamps within nested values, which are JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from headrace.cli.output.base import OutputColumn, Row, Writer
from headrace.cli.output.instants import find_zone, format_local, format_timestamp
from headrace.grammar.data_types import DataType, parse_data_type

_GEO = ("geometry", "geography")
Format = Callable[[Any], Any]


class ReadableWriter:
    """A writer that converts the values of its rows for people."""

    def __init__(
        self, writer: Writer, columns: Sequence[OutputColumn], time_zone: str | None
    ) -> None:
        self._writer = writer
        self._formats = _choose_formats(columns, time_zone)

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        self._writer.begin(columns, self._convert(sample))

    def write_rows(self, rows: Sequence[Row]) -> None:
        self._writer.write_rows(self._convert(rows))

    def end(self) -> None:
        self._writer.end()

    def _convert(self, rows: Sequence[Row]) -> Sequence[Row]:
        return _convert_rows(rows, self._formats)


def convert_values(
    rows: Sequence[Row], columns: Sequence[OutputColumn], time_zone: str | None
) -> Sequence[Row]:
    """Return the rows with values for people. `time_zone` is that of the session, if known."""
    return _convert_rows(rows, _choose_formats(columns, time_zone))


def needs_conversion(columns: Sequence[OutputColumn]) -> bool:
    """Return whether people read the values of a column in another form than programs."""
    return bool(_choose_formats(columns, None))


def format_binary(text: str) -> str:
    """Return a binary value, which the API writes as base64, as Spark shows it: `[CA FE]`."""
    return f"[{base64.b64decode(text).hex(' ').upper()}]"


def _convert_rows(rows: Sequence[Row], formats: Sequence[tuple[int, Format]]) -> list[Row]:
    converted: list[Row] = []
    for row in rows:
        values = list(row)
        for index, format_value in formats:
            if values[index] is not None:
                values[index] = format_value(values[index])
        converted.append(values)
    return converted


def _choose_formats(
    columns: Sequence[OutputColumn], time_zone: str | None
) -> list[tuple[int, Format]]:
    """Return the index and the conversion of each column that has one."""
    zone = find_zone(time_zone)
    formats: list[tuple[int, Format]] = []
    for index, column in enumerate(columns):
        type_ = parse_data_type(column.type)
        if type_.base == "timestamp":
            formats.append((index, lambda text: format_timestamp(text, zone)))
        elif type_.base in {"timestamp_ntz", "time"}:
            formats.append((index, format_local))
        elif type_.contains("binary", *_GEO):
            formats.append((index, _binary_format(type_)))
    return formats


def _binary_format(type_: DataType) -> Format:
    """Return the conversion of the binary values within a value of the API."""
    if type_.base == "binary":
        return format_binary
    if type_.base in _GEO:
        return lambda value: {**value, "wkb": format_binary(value["wkb"])}
    if not type_.contains("binary", *_GEO):
        return lambda value: value
    formats = [_nullable(_binary_format(child)) for child in type_.children]
    if type_.name == "array":
        return lambda items: [formats[0](item) for item in items]
    if type_.name == "map":
        return lambda pairs: [[formats[0](key), formats[1](value)] for key, value in pairs]

    def convert_struct(value: Any) -> Any:
        if isinstance(value, dict):
            items = zip(value.items(), formats, strict=True)
            return {name: convert(member) for (name, member), convert in items}
        # A struct whose names repeat is a list of pairs.
        return [
            [name, convert(member)] for (name, member), convert in zip(value, formats, strict=True)
        ]

    return convert_struct


def _nullable(convert: Format) -> Format:
    return lambda value: None if value is None else convert(value)
