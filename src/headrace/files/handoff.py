"""Objects in the results location that carry a secret to a driver on another host.

Each object is read once, and its reader deletes it. Its name ends in 256 random bits.
"""

from __future__ import annotations

import secrets

from headrace.files import locations
from headrace.files.places import join

_FOLDER = "handoff"


def write_handoff(results: str, name: str, content: bytes) -> str:
    """Write an object and return its location. Raises the file system's own errors.

    Args:
        results: The results location.
        name: Prefix of the object's name, by which `delete_handoffs` finds it. It may be public.
        content: Bytes for the reader, for example a bootstrap with its token.
    """
    folder = join(results, _FOLDER)
    locations.create_directory(folder)
    location = join(folder, f"{name}.{secrets.token_urlsafe(32)}")
    locations.write(location, content, private=True)
    return location


def read_and_delete_handoff(location: str) -> bytes:
    """Return the content of an object and delete it, so that no other process can read it.

    Raises FileNotFoundError if the object has already been read, and ResultsUnavailable if it
    cannot be read or deleted.
    """
    content = locations.read(location)
    locations.delete(location)
    return content


def delete_handoffs(results: str, name: str) -> None:
    """Delete the unread objects of a name. Raises ResultsUnavailable."""
    folder = join(results, _FOLDER)
    for entry in locations.list_names(folder):
        if entry.startswith(f"{name}."):
            locations.delete(join(folder, entry))
