"""Reading of log files, which the processes of drivers can replace."""

from __future__ import annotations

import os

from headrace.files import locations
from headrace.grammar.masking import mask_text

_CONTEXT = 4096
"""Bytes before the end that is read, which may contain the name of the first secret in it."""


def read_log(directory: str, name: str, limit: int) -> bytes | None:
    """Return the last `limit` bytes of a log, with the secrets redacted; None if there is no file.

    Raises as `read_end` does.
    """
    content = read_end(directory, name, limit + _CONTEXT)
    if content is None:
        return None
    return mask_text(content.decode(errors="replace")).encode()[-limit:]


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
