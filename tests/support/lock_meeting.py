"""A meeting point of two transactions, for tests of the order of locks."""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy import event
from tests.support.in_process_node import InProcessNode


class Meeting:
    """Lets two transactions meet after the first lock that each has on a session.

    A transaction that meets nobody continues after a second: the other one waits for its lock.
    """

    def __init__(self, node: InProcessNode) -> None:
        self._barrier = threading.Barrier(2)
        self._threads: set[int] = set()
        event.listen(node.database._writers, "after_cursor_execute", self._on_query)

    def join(self) -> None:
        """Take part with the next transaction of this thread."""
        self._threads.add(threading.get_ident())

    def _on_query(self, _connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        locks_session = sql.startswith("UPDATE sessions") or (
            "FROM sessions" in sql and "FOR UPDATE" in sql
        )
        if locks_session and threading.get_ident() in self._threads:
            self._threads.discard(threading.get_ident())
            try:
                self._barrier.wait(timeout=1)
            except threading.BrokenBarrierError:
                return
