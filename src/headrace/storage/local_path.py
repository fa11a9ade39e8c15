"""Locations in this host's file systems. This module imports no library of storage."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit


def local_path(location: str) -> Path | None:
    """Return the path of a location in this host's file systems, or None for any other URI."""
    if "://" not in location and not location.startswith("file:"):
        return Path(location)
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    return None
