"""Reads Spark's logs, to report the exception that stopped Spark."""

from __future__ import annotations

import os
import re
from pathlib import Path

_TAIL_BYTES = 64 * 1024
_EXCEPTION = re.compile(
    r"^(?:Exception in thread .*? |Caused by: )?((?:[a-z]\w*\.)+\w*(?:Exception|Error): .*)$",
    re.MULTILINE,
)


def find_last_exception(log: str) -> str | None:
    """Return the class and message of the last exception in a log; None if there is none."""
    exceptions = _EXCEPTION.findall(log)
    return exceptions[-1] if exceptions else None


def read_tail(log: Path, start: int = 0) -> str:
    """Return the last 64 KiB of a log file, without what precedes the byte `start`.

    A file that cannot be read gives an empty string.
    """
    try:
        with log.open("rb") as stream:
            stream.seek(max(start, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
