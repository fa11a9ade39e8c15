"""Values for people: timestamps in the time zone of the session, binary values as `[CA FE]`.

The API writes a timestamp in UTC and a binary value as base64. Formats for programs keep this form,
and so do timestamps within nested values, which are JSON.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from headrace.cli.output.writers import OutputColumn, Row, Writer
from headrace.grammar.data_types import DataType, parse_data_type

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


def find_zone(name: str | None) -> tzinfo | None:
    """Return a time zone by its name in Spark, or None if this host does not know it.

    Spark knows regions such as `Europe/Paris`, and offsets such as `+02:00` and `GMT+2`.
    """
    if name is None:
        return None
    if name in {"Z", "UTC", "GMT", "UT"}:
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, *parts = match.groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-offset if sign == "-" else offset) if hours <= 18 else None
    # zoneinfo takes 5 ms to import, which most results do not need.
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return None


def format_timestamp(text: str, zone: tzinfo | None) -> str:
    """Return a timestamp of the API in a zone, for example `2026-11-24 11:00:00.5`.

    Without a zone, and for years that Python does not support, the text is in UTC and ends with Z.
    """
    if zone is not None:
        try:
            local = datetime.fromisoformat(text).astimezone(zone).replace(tzinfo=None)
            return strip_fraction(local.isoformat(" ", "microseconds"))
        except (ValueError, OverflowError):
            pass
    return strip_fraction(text.removesuffix("Z").replace("T", " ")) + "Z"


def strip_fraction(text: str) -> str:
    """Return a time without the zeros at the end of its fraction."""
    return text.rstrip("0").removesuffix(".") if "." in text else text


def format_local(text: str) -> str:
    """Return a timestamp without zone, or a time of day, for people."""
    return strip_fraction(text.replace("T", " "))


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
