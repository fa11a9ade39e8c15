"""Spark's configuration as a Java properties file.

Configuration can hold secrets, and other users of a host can read the arguments of a process.
spark-submit therefore receives configuration in a file that only its owner can read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from headrace.files.private_files import write_private

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def properties_file(bootstrap: Path) -> Path:
    """Return the path of the properties file of a driver with this bootstrap file."""
    return bootstrap.with_suffix(".properties")


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write a properties file with mode 0600. Raises OSError."""
    write_private(file, format_properties(properties))


def format_properties(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file."""
    return "".join(f"{_escape_key(key)}={_escape(value)}\n" for key, value in properties.items())


def _escape_key(key: str) -> str:
    escaped = _escape(key)
    for special in " =:#!":
        escaped = escaped.replace(special, f"\\{special}")
    return escaped


def _escape(text: str) -> str:
    escaped = "".join(_ESCAPES.get(letter, letter) for letter in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


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
