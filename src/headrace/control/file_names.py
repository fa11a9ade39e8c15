"""Names of users as names of files."""

from __future__ import annotations

from urllib.parse import quote


def to_file_name(name: str) -> str:
    """Return one segment of a path for a name, which can contain any character.

    Different names have different segments, and no segment leaves the directory.
    """
    segment = quote(name, safe="")
    return segment.replace(".", "%2E") if segment in {".", ".."} else segment
