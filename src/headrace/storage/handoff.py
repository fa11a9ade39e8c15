"""Objects in the results location that are read once: what a driver on another host is told.

They lie in `handover/`, below names that nobody can guess, and whoever reads one deletes it.
"""

from __future__ import annotations

import secrets

from headrace.storage import locations

_FOLDER = "handover"


def put(results: str, name: str, content: bytes) -> str:
    """Leaves an object; where. `name` need not be secret. Raises the file system's own errors."""
    folder = locations.join(results, _FOLDER)
    locations.make(folder)
    place = locations.join(folder, f"{name}.{secrets.token_urlsafe(32)}")
    locations.write(place, content, private=True)
    return place


def take(place: str) -> bytes:
    """The content, which nobody can read afterwards.

    Raises FileNotFoundError when it was taken before, ResultsUnavailable.
    """
    content = locations.read(place)
    locations.delete(place)
    return content


def remove(results: str, name: str) -> None:
    """Removes what was left under a name and has not been taken. Raises ResultsUnavailable."""
    folder = locations.join(results, _FOLDER)
    for found in locations.names(folder):
        if found.startswith(f"{name}."):
            locations.delete(locations.join(folder, found))
