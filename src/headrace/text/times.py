"""Times as text: lengths of time for people, instants for programs.

Lists, pages and messages show each length of time in one format, in at most two units. The form
`30m`, in which users write durations, is the subject of `headrace.text.durations`.
"""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


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
