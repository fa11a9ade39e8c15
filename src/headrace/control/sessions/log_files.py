"""Reading of log files, which the processes of drivers can replace."""

from __future__ import annotations

import os

from headrace.storage import locations


def read_end(directory: str, name: str, limit: int) -> bytes | None:
    """Return the last `limit` bytes of a file; None if there is no file.

    A link is not followed, and a pipe not read.

    Raises:
        ResultsUnavailable: The file is not a regular file, or cannot be read.
    """
    try:
        with locations.open_driver_file(directory, name) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - limit))
            content: bytes = stream.read(limit)
            return content
    except FileNotFoundError:
        return None
