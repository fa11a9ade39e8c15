"""Text for people: printable characters, plurals, lengths of time, and instants.

Lists, pages and messages show each length of time in one format, in at most two units. The form
`30m`, in which users write durations, is the subject of `headrace.text.durations`.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime

_SUSPECT = re.compile(r"[^\n\t -~]")
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HARMLESS_CATEGORIES = {"Zs", "Co", "Cn"}
"""Spaces, and characters without a meaning in this version of Unicode."""


def escape_controls(text: str) -> str:
    """Return a text in which escapes replace the control characters.

    Line feeds and tabs remain.
    """
    return _SUSPECT.sub(lambda match: escape_character(match[0]), text)


def escape_character(char: str) -> str:
    """Return a character, or its escape if it is a control character, a line feed or a tab."""
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    if char.isprintable() or unicodedata.category(char) in _HARMLESS_CATEGORIES:
        return char
    return char.encode("unicode_escape").decode("ascii")


def describe_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 row`, `1,200 rows`.

    Args:
        plural: The plural of the noun; None: with an `s`.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def describe_bytes(count: float) -> str:
    """Return a number of bytes in a binary unit, for example `1.5 MiB`."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while count >= 1024 and unit != "TiB":
        count, unit = count / 1024, next(units)
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


def describe_duration(seconds: float) -> str:
    """Return a length of time: `0.12 s`, `7.5 s`, `2 min 5 s`, `3 h 20 min`, `2 d`.

    Fractions are shown below a minute only. A negative length is `0 s`.
    """
    rounded = round(max(0.0, seconds), 2 if seconds < 1 else 1)
    if rounded < 60:
        return f"{rounded:g} s"
    remaining = int(rounded)
    parts: list[str] = []
    for unit, size in _UNITS:
        count, remaining = divmod(remaining, size)
        # Two units that follow each other: a day and 5 s are `1 d`.
        if parts or count:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def format_utc(instant: datetime) -> str:
    """Return an instant in UTC with microseconds, for example `2026-11-21T10:00:00.000000Z`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
