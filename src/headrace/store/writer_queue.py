"""The queue of a SQLite file's writers: one at a time, in the order in which they came.

SQLite itself serves waiting writers in no order, so that one may starve (spark-facts.md: 8.4 s);
so does `threading.Lock`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import StoreUnavailable


class WriterQueue:
    """A lock that is handed from each holder to whoever has waited longest."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._gates: deque[threading.Lock] = deque()
        self._held = False
        self._holder: int | None = None

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._gates)

    @contextmanager
    def turn(self, timeout: float) -> Iterator[None]:
        """Hold the lock. Raises StoreUnavailable when the turn does not come in `timeout` s."""
        if self._holder == threading.get_ident():
            raise RuntimeError("a write transaction inside another would wait for itself")
        self._take(timeout)
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            self._pass_on()

    def _take(self, timeout: float) -> None:
        with self._guard:
            if not self._held:
                self._held = True
                return
            gate = threading.Lock()
            gate.acquire()
            self._gates.append(gate)
        if gate.acquire(timeout=timeout):
            return
        with self._guard:
            if gate in self._gates:
                self._gates.remove(gate)
                raise StoreUnavailable(f"No turn to write came within {timeout:g} s.")
        # It was handed over in the very last moment: the turn is ours.

    def _pass_on(self) -> None:
        with self._guard:
            if self._gates:
                self._gates.popleft().release()
            else:
                self._held = False
