"""Files that only their owner may read, replaced atomically: no reader sees a partial file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_private(file: Path, content: str | bytes) -> None:
    """Write a file with mode 0600 from the first byte on. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
    temporary.replace(file)
