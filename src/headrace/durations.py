"""Durations as users write them: a number and a unit. A bare number is refused."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")
_SHAPE = rf"^\s*[0-9]+(\.[0-9]+)?\s*({'|'.join(_UNITS)})\s*$"


def parse_duration(value: object) -> timedelta:
    """`"10s"`, `"5 min"`, `"1.5h"` … as a timedelta. Raises ValueError with what is allowed."""
    if isinstance(value, timedelta):
        return value
    match = _PATTERN.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        raise ValueError(
            f"{value!r} is no duration: write a number and a unit, "
            f"e.g. '10s' (units: {', '.join(_UNITS)})"
        )
    try:
        return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
    except OverflowError:
        raise ValueError(f"{value!r} is too long a duration") from None


def format_duration(duration: timedelta) -> str:
    """A duration in the form that `parse_duration` reads, to the microsecond."""
    seconds, rest = divmod(duration, timedelta(seconds=1))
    return f"{duration // timedelta(microseconds=1)}us" if rest else f"{seconds}s"


def seconds_of(duration: timedelta | None) -> float | None:
    """Its length in seconds; None for none."""
    return None if duration is None else duration.total_seconds()


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _SHAPE, "examples": ["10s"]}),
]
