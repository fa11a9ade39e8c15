"""Locks on files, between processes of one host. The kernel releases those of a dead process."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_INTERVAL = 0.02


def lock_file(file: Path, *, shared: bool = False, timeout: float = 0.0) -> int | None:
    """Create a file if it does not exist, lock it, and return its open descriptor.

    To release the lock, close the descriptor.

    Args:
        shared: Several processes may hold a shared lock at the same time.
        timeout: Seconds to wait for the lock.

    Returns:
        None if another process held the lock all the time. Raises OSError if the file cannot be
        opened.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if _acquire(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, timeout):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


@contextmanager
def exclusive_lock(file: Path) -> Iterator[None]:
    """Wait for an exclusive lock on a file, and hold it during the block."""
    with file.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _acquire(descriptor: int, operation: int, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_INTERVAL)
        else:
            return True
