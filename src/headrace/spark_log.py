"""Spark's own words on what stopped it, out of a log."""

from __future__ import annotations

import os
import re
from pathlib import Path

_LOG_BYTES = 64 * 1024
_EXCEPTION = re.compile(
    r"^(?:Exception in thread .*? |Caused by: )?((?:[a-z]\w*\.)+\w*(?:Exception|Error): .*)$",
    re.MULTILINE,
)


def last_exception(log: str) -> str | None:
    """The last exception that a log tells of, by its own line."""
    found = _EXCEPTION.findall(log)
    return found[-1] if found else None


def end_of(log: Path, start: int = 0) -> str:
    """The end of a log file, of what follows the byte `start`; empty where it cannot be read."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(start, stream.seek(0, os.SEEK_END) - _LOG_BYTES))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
