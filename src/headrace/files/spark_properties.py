"""Spark's configuration as a Java properties file.

Configuration can hold secrets, and other users of a host can read the arguments of a process.
spark-submit therefore receives configuration in a file that only its owner can read.
"""

from __future__ import annotations

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
