"""Timestamps for people: in the time zone of the session, as Spark shows them.

The API writes a timestamp in UTC, for example `2026-11-24T10:00:00.000000Z`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

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
