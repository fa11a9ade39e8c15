"""Idle shutdown: an embedded node stops some time after the last command that used its home.

Every command holds a shared lock on `commands.lock` while it runs. The kernel releases the lock of
a command that is killed.
"""

from __future__ import annotations

import fcntl
import time
from typing import TextIO

from headrace.errors import StoreUnavailable
from headrace.home import HomeLayout
from headrace.store import statements
from headrace.store.database import Database


class IdleShutdown:
    """Measures how long no command has used an embedded node."""

    def __init__(self, layout: HomeLayout, linger_seconds: float) -> None:
        self._lock_file = layout.commands_lock
        self._linger_seconds = linger_seconds
        self._idle_since: float | None = None
        self._lock: TextIO | None = None

    def is_due(self, database: Database) -> bool:
        """Return whether no command has used the node for the linger time and all work has ended.

        A detached statement keeps the node alive until it has ended. After the first True, this
        process holds the lock exclusively: a new command waits for the end of the node, and then
        starts another one.
        """
        if self._lock is not None:
            return True
        lock = self._acquire_lock()
        if lock is None or _has_active_statements(database):
            self._idle_since = None
            if lock is not None:
                lock.close()
            return False
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if now - self._idle_since < self._linger_seconds:
            lock.close()
            return False
        self._lock = lock
        return True

    def _acquire_lock(self) -> TextIO | None:
        """Return the open lock file, locked exclusively, or None while a command holds the lock."""
        self._lock_file.parent.mkdir(parents=True, exist_ok=True)
        stream = self._lock_file.open("a")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            return None
        return stream


def _has_active_statements(database: Database) -> bool:
    """Return whether a statement has not ended. A store that does not answer counts as active."""
    try:
        with database.read() as tx:
            return statements.active_count(tx) > 0
    except StoreUnavailable:
        return True
