"""Durations and ages for people."""

from __future__ import annotations


def format_duration(seconds: float) -> str:
    """Return seconds in at most two units: `0.12 s`, `7.5 s`, `2 min 5 s`, `3 h 20 min`, `2 d`."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return format_age(seconds)


def format_age(seconds: float) -> str:
    """Return whole seconds in at most two units: `7 s`, `2 min 5 s`, `3 h 20 min`, `2 d 1 h`."""
    remaining = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, remaining = divmod(remaining, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def format_short_age(seconds: float) -> str:
    """Return a time in its largest unit, rounded down: `7 s`, `2 min`, `3 h`, `2 d`."""
    return " ".join(format_age(seconds).split(" ")[:2])
