"""Finds files in folders that another process changes."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path


def find_matching(folder: Path, pattern: str) -> list[Path]:
    """Return the files and folders below a folder whose names match a pattern.

    `Path.rglob` fails when a folder is removed between its listing and its reading. This function
    leaves such a folder out, and also one that does not exist.
    """
    return [
        Path(parent, name)
        for parent, folders, files in os.walk(folder)
        for name in fnmatch.filter([*folders, *files], pattern)
    ]
