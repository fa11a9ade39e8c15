"""Durations as text: a number and a unit, such as `30s` or `5 min`.

A number without a unit is refused. Settings, requests and responses all use this form.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {
    "us": timedelta(microseconds=1),
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_OUTPUT_UNITS = ("d", "h", "m", "s", "ms", "us")
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PATTERN = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)\s*")
_JSON_SCHEMA_PATTERN = rf"^\s*[0-9]+(\.[0-9]+)?\s*({'|'.join(_UNITS)})\s*$"


def parse_duration(value: object) -> timedelta:
    """Parse text such as `10s`, `5 min` or `1.5h`; return a timedelta unchanged.

    Raises ValueError for any other value. The message lists the units.
    """
    if isinstance(value, timedelta):
        return value
    match = _PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        raise ValueError(
            f"{value!r} is not a duration. {_advice(value)}. Units: {', '.join(_UNITS)}"
        )
    try:
        return float(match[1]) * _UNITS[match[2]]
    except OverflowError:
        raise ValueError(f"{value!r} is too long for a duration") from None


def _advice(value: object) -> str:
    number = str(value).strip()
    if re.fullmatch(_NUMBER, number):
        return f"Add a unit, for example {number}s"
    return "Write a number and a unit, for example 10s"


def format_duration(duration: timedelta) -> str:
    """Format a duration in the largest unit that divides it, for example `30m`, `90s` or `1h`.

    `parse_duration` reads the text back.
    """
    if not duration:
        return "0s"
    unit = next(unit for unit in _OUTPUT_UNITS if not duration % _UNITS[unit])
    return f"{duration // _UNITS[unit]}{unit}"


def seconds_of(duration: timedelta | None) -> float | None:
    """Return the length in seconds, or None for None."""
    return None if duration is None else duration.total_seconds()


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _JSON_SCHEMA_PATTERN, "examples": ["10s"]}),
]
