"""Timestamps for people: in the time zone of the session, as Spark shows them.

The API writes a timestamp in UTC, for example `2026-11-24T10:00:00.000000Z`. Formats for programs
keep this form, and so do timestamps within nested values, which are JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from headrace.cli.output.base import OutputColumn, Row, Writer

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


class InstantWriter:
    """A writer that converts the timestamps of its rows for people."""

    def __init__(
        self, writer: Writer, columns: Sequence[OutputColumn], time_zone: str | None
    ) -> None:
        self._writer = writer
        self._columns = columns
        self._time_zone = time_zone

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        self._writer.begin(columns, self._convert(sample))

    def write_rows(self, rows: Sequence[Row]) -> None:
        self._writer.write_rows(self._convert(rows))

    def end(self) -> None:
        self._writer.end()

    def _convert(self, rows: Sequence[Row]) -> list[Row]:
        return convert_instants(rows, self._columns, self._time_zone)


def convert_instants(
    rows: Sequence[Row], columns: Sequence[OutputColumn], time_zone: str | None
) -> list[Row]:
    """Return the rows with timestamps in the time zone of a session, as text for people."""
    formatters = _make_formatters(columns, time_zone)
    converted: list[Row] = []
    for row in rows:
        values = list(row)
        for index, format_value in formatters:
            if isinstance(values[index], str):
                values[index] = format_value(values[index])
        converted.append(values)
    return converted


def has_instants(columns: Sequence[OutputColumn]) -> bool:
    """Return whether a column holds timestamps or times of day."""
    return any(_is_instant(column) for column in columns)


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


def _is_instant(column: OutputColumn) -> bool:
    return column.type.partition("(")[0] in {"timestamp", "timestamp_ntz", "time"}


def _make_formatters(
    columns: Sequence[OutputColumn], time_zone: str | None
) -> list[tuple[int, Callable[[str], Any]]]:
    """Return the index and the conversion of each column that holds times."""
    zone = find_zone(time_zone)
    return [
        (
            index,
            (lambda text: format_timestamp(text, zone))
            if column.type == "timestamp"
            else _format_local,
        )
        for index, column in enumerate(columns)
        if _is_instant(column)
    ]


def _format_local(text: str) -> str:
    """Return a timestamp without zone, or a time of day, for people."""
    return strip_fraction(text.replace("T", " "))
