"""Idle shutdown: an embedded node stops some time after the last command that used its home.

Every command holds a shared lock on `commands.lock` while it runs. The kernel releases the lock of
a command that is killed.
"""

from __future__ import annotations

import os
import time

from headrace.config.home import HomeLayout
from headrace.errors import StoreUnavailable
from headrace.files.file_locks import lock_file
from headrace.store.database import Database
from headrace.store.statements import statements
from headrace.store.streams import stream_queries


class IdleShutdown:
    """Measures how long no command has used an embedded node."""

    def __init__(self, layout: HomeLayout, linger_seconds: float) -> None:
        self._lock_file = layout.commands_lock
        self._linger_seconds = linger_seconds
        self._idle_since: float | None = None
        self._lock: int | None = None

    def is_due(self, database: Database) -> bool:
        """Return whether no command has used the node for the linger time and all work has ended.

        A detached statement and a streaming query keep the node alive until they have ended. After
        the first True, this process holds the lock exclusively: a new command waits for the end of
        the node, and then starts another one.
        """
        if self._lock is not None:
            return True
        lock = lock_file(self._lock_file)
        if lock is None or _has_active_work(database):
            self._idle_since = None
            if lock is not None:
                os.close(lock)
            return False
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if now - self._idle_since < self._linger_seconds:
            os.close(lock)
            return False
        self._lock = lock
        return True


def _has_active_work(database: Database) -> bool:
    """Return whether a statement or a streaming query has not ended.

    A store that does not answer counts as active.
    """
    try:
        with database.read() as tx:
            return statements.active_count(tx) > 0 or stream_queries.any_live(tx)
    except StoreUnavailable:
        return True
