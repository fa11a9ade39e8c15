"""When an embedded node ends: some time after the last command of its home.

Every command holds a shared lock on `commands.lock` for as long as it lives; the kernel drops the
lock of one that is killed.
"""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import TextIO

from headrace.errors import StoreUnavailable
from headrace.store import statements
from headrace.store.database import Database


class IdleShutdown:
    """Watches for the commands that use an embedded node."""

    def __init__(self, home: Path, linger_seconds: float) -> None:
        self._lock = home.absolute() / "commands.lock"
        self._linger_seconds = linger_seconds
        self._unused_since: float | None = None
        self._held: TextIO | None = None

    def gone(self, database: Database) -> bool:
        """Whether nobody has used the node for long enough, and nothing it accepted is unfinished.

        A detached statement keeps the node alive until it has ended. Once this says yes, it keeps
        the lock to itself: a command that comes now waits for the end, and then starts a new node.
        """
        if self._held is not None:
            return True
        lock = self._taken()
        if lock is None or _unfinished(database):
            self._unused_since = None
            if lock is not None:
                lock.close()
            return False
        now = time.monotonic()
        self._unused_since = self._unused_since or now
        if now - self._unused_since < self._linger_seconds:
            lock.close()
            return False
        self._held = lock
        return True

    def _taken(self) -> TextIO | None:
        """The lock, held by this process alone; None while a command holds it."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        stream = self._lock.open("a")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            return None
        return stream


def _unfinished(database: Database) -> bool:
    try:
        with database.read() as tx:
            return statements.active_count(tx) > 0
    except StoreUnavailable:
        return True
