"""The token that a node creates in its home if the settings contain none."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from headrace.files.private_files import write_private

_BYTES = 32


def load_or_create_token(file: Path) -> str:
    """Return the token in a file with mode 0600; create the file if it does not exist.

    Another process that creates the file at the same time gets the same token. The mode of an
    existing file is corrected. Raises OSError.
    """
    if not file.exists():
        _create(file)
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
    token = file.read_text().strip()
    if not token:
        token = secrets.token_urlsafe(_BYTES)
        write_private(file, token)
    return token


def _create(file: Path) -> None:
    """Create the file with a new token, unless another process has just created it."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    write_private(draft, secrets.token_urlsafe(_BYTES))
    try:
        # Unlike a rename, a link does not replace the file of another process.
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
