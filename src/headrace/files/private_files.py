"""Files that only their owner may read, and whether a file belongs to a user that is trusted."""

from __future__ import annotations

import os
import pwd
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from headrace.errors import InvalidSetting

_ROOT = 0


def create_private_folder(folder: Path) -> None:
    """Create a folder, and its missing parents, that only their owner may read. Raises OSError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def open_private_log(file: Path) -> BinaryIO:
    """Open a file for appending, with mode 0600 if it is new. Raises OSError."""
    create_private_folder(file.parent)
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def write_private(
    file: Path, content: str | bytes, *, owner: tuple[int, int] | None = None
) -> None:
    """Replace a file atomically, with mode 0600 from the first byte on. Raises OSError.

    Args:
        owner: User id and group id of the file; None: those of this process.
    """
    create_private_folder(file.parent)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        if owner is not None:
            # By the descriptor: the folder may belong to the owner, who could replace the file.
            os.fchown(descriptor, *owner)
        stream.write(content.encode() if isinstance(content, str) else content)
    temporary.replace(file)


def read_secret(file: Path) -> str:
    """Return the text of a file with a secret, without spaces at its ends.

    Raises:
        InvalidSetting: The file cannot be read, is empty, or is open to other users.
    """
    try:
        with file.open(encoding="utf-8") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            text = stream.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"The secret in {file} cannot be read: {error}.") from error
    # The group may read it: Kubernetes gives the files of a secret to the group of a pod.
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise InvalidSetting(
            f"Other users can read or change the secret in {file}.", hint=f"chmod 600 {file}"
        )
    if not text:
        raise InvalidSetting(f"The file {file} contains no secret.")
    return text


def belongs_to_other_user(path: Path) -> bool:
    """Return whether a file or folder belongs neither to this user nor to root. Raises OSError."""
    return path.stat().st_uid not in {os.geteuid(), _ROOT}


def name_of_user(uid: int) -> str:
    """Return the name of a user of the operating system; its number if the system has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
