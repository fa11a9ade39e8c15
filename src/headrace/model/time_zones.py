"""Time zones of schedules, from the package tzdata and not from the host.

Nodes with the same version of the package therefore compute the same times on all hosts.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_PACKAGE = "tzdata"


@cache
def list_zones() -> frozenset[str]:
    """Return the names of all time zones."""
    return frozenset(files(_PACKAGE).joinpath("zones").read_text().split())


@cache
def find_zone(name: str) -> ZoneInfo:
    """Return a time zone. Raises ZoneInfoNotFoundError."""
    if name not in list_zones():
        raise ZoneInfoNotFoundError(f"No time zone found with key {name}")
    with files(_PACKAGE).joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@cache
def find_version() -> str:
    """Return the version of the time zone data."""
    return version(_PACKAGE)
