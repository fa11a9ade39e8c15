"""Durations as text: a number and a unit, such as `30s` or `5 min`.

A number without a unit is refused, and so is a duration of more than 100 years, which a database
cannot add to the current time. Settings, requests and responses all use this form.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

UNITS = {
    "us": timedelta(microseconds=1),
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
"""Length of each unit."""
LONGEST_DURATION = timedelta(days=36_525)
"""100 years."""
_SHOWN = 50
"""Largest number of characters of a wrong value in a message."""
_OUTPUT_UNITS = ("d", "h", "m", "s", "ms", "us")
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PATTERN = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)\s*")
_JSON_SCHEMA_PATTERN = rf"^\s*[0-9]+(\.[0-9]+)?\s*({'|'.join(UNITS)})\s*$"


def parse_duration(value: object) -> timedelta:
    """Parse text such as `10s`, `5 min` or `1.5h`; return a timedelta unchanged.

    Raises ValueError for any other value. The message lists the units.
    """
    if isinstance(value, timedelta):
        return _check_length(value, format_duration(value))
    match = _PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in UNITS:
        raise ValueError(
            f"{_shorten(value)} is not a duration. {_advice(value)}. Units: {', '.join(UNITS)}"
        )
    try:
        duration = float(match[1]) * UNITS[match[2]]
    except OverflowError:
        duration = timedelta.max
    return _check_length(duration, match[0])


def _check_length(duration: timedelta, text: str) -> timedelta:
    if duration > LONGEST_DURATION:
        raise ValueError(
            f"{_shorten(text)} is too long. The longest duration is 36525d (100 years)"
        )
    return duration


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _advice(value: object) -> str:
    number = str(value).strip()
    if len(number) <= _SHOWN and re.fullmatch(_NUMBER, number):
        return f"Add a unit, for example {number}s"
    return "Write a number and a unit, for example 10s"


def format_duration(duration: timedelta) -> str:
    """Format a duration in the largest unit that divides it, for example `30m`, `90s` or `1h`.

    `parse_duration` reads the text back.
    """
    if not duration:
        return "0s"
    unit = next(unit for unit in _OUTPUT_UNITS if not duration % UNITS[unit])
    return f"{duration // UNITS[unit]}{unit}"


def seconds_of(duration: timedelta | None) -> float | None:
    """Return the length in seconds, or None for None."""
    return None if duration is None else duration.total_seconds()


def limit_duration(longest: timedelta, *, shortest: timedelta = timedelta(0)) -> Any:
    """Return the type of a duration within limits. Its JSON Schema states them.

    JSON Schema has no limits for texts, and its format `duration` is that of ISO 8601. The limits
    are therefore in keywords of Headrace, and the format has a name of its own.
    """

    def parse(value: object) -> timedelta:
        duration = parse_duration(value)
        if duration > longest:
            raise ValueError(
                f"{_shorten(value)} is longer than the maximum, {format_duration(longest)}"
            )
        if duration < shortest:
            raise ValueError(
                f"{_shorten(value)} is shorter than the minimum, {format_duration(shortest)}"
            )
        return duration

    schema = {
        "type": "string",
        "format": DURATION_FORMAT,
        "pattern": _JSON_SCHEMA_PATTERN,
        "x-minimum": format_duration(shortest),
        "x-maximum": format_duration(longest),
        "examples": ["10s"],
    }
    return Annotated[
        timedelta,
        BeforeValidator(parse),
        PlainSerializer(format_duration, return_type=str),
        WithJsonSchema(schema),
    ]


DURATION_FORMAT = "headrace-duration"
"""Name of the form in JSON Schema."""
if TYPE_CHECKING:
    Duration = timedelta
else:
    Duration = limit_duration(LONGEST_DURATION)
