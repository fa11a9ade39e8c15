"""A fair lock for the writers of a SQLite file.

SQLite serves waiting writers in no particular order, so that a writer can starve: a wait of 8.4 s
was measured. A `threading.Lock` guarantees no order either.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import StoreUnavailable


class WriterQueue:
    """A lock that each holder hands to the thread that has waited longest."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._gates: deque[threading.Lock] = deque()
        """One locked gate for each waiting thread. A holder releases the first gate."""
        self._held = False
        self._holder: int | None = None

    @property
    def waiting(self) -> int:
        """Number of threads that wait for the lock."""
        return len(self._gates)

    @contextmanager
    def turn(self, timeout: float) -> Iterator[None]:
        """Hold the lock for the length of the block.

        Raises:
            StoreUnavailable: The lock was not free within `timeout` seconds.
            RuntimeError: The calling thread holds the lock already.
        """
        if self._holder == threading.get_ident():
            raise RuntimeError("a write transaction inside another one would wait for itself")
        self._acquire(timeout)
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = None
            self._release()

    def _acquire(self, timeout: float) -> None:
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
                raise StoreUnavailable(
                    f"The store is overloaded: no turn to write came within {timeout:g} s."
                )
        # The holder handed the lock over just after the timeout: this thread holds it.

    def _release(self) -> None:
        with self._guard:
            if self._gates:
                self._gates.popleft().release()
            else:
                self._held = False
