"""Writes files that only their owner can read.

A file is replaced in one step, so that no reader sees it half-written.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_private(file: Path, content: str | bytes) -> None:
    """Write a file that has mode 0600 from its first byte on. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
    temporary.replace(file)
