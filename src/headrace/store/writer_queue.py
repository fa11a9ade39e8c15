"""The order of writers: renewals of leases first, then reports of drivers, then everything else.

SQLite serves waiting writers in no particular order, so that a writer can starve: a wait of 8.4 s
was measured. A `threading.Lock` guarantees no order either. PostgreSQL serves several writers at
once, and the pool of connections has no order.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from headrace.errors import StoreUnavailable
from headrace.time_text import describe_duration

_LONGEST_SERIES = 8
"""Number of turns of earlier classes in succession after which a waiting writer has its turn."""


class Precedence(IntEnum):
    """The classes of writers, in the order in which they are served."""

    LEASES = 0
    """Renewals. A late renewal costs a driver its session, or a node its drivers."""
    REPORTS = 1
    """What drivers report about statements. An end makes a place free for another statement."""
    OTHERS = 2
    """Submits and all other changes."""


class WriterQueue:
    """Turns to write. A free turn goes to the first class that has a waiting writer.

    Within a class, it goes to the writer that has waited longest. No class starves: while a writer
    of a later class waits, those of earlier classes have at most `_LONGEST_SERIES` turns.
    """

    def __init__(self, *, turns: int = 1, reserved: int = 0) -> None:
        """Create it with free turns.

        Args:
            turns: Largest number of writers at once.
            reserved: Turns that the class OTHERS leaves free. REPORTS leaves half of them free.
        """
        self._guard = threading.Lock()
        self._free = turns
        self._needed = dict.fromkeys(Precedence, 1) | {Precedence.OTHERS: 1 + reserved}
        """Number of free turns that each class needs to get one."""
        self._gates: dict[Precedence, deque[threading.Lock]] = {
            each: deque() for each in Precedence
        }
        """One locked gate for each waiting writer. The writer that frees a turn releases a gate."""
        self._passed = dict.fromkeys(Precedence, 0)
        """Turns that earlier classes have had while each class waited."""
        self._is_exclusive = turns == 1
        self._holder: int | None = None

    @property
    def waiting(self) -> int:
        """Number of writers that wait."""
        return sum(map(len, self._gates.values()))

    @contextmanager
    def turn(self, seconds: float, precedence: Precedence = Precedence.OTHERS) -> Iterator[float]:
        """Hold a turn for the length of the block, and yield the rest of the seconds.

        Raises:
            StoreUnavailable: No turn was free within `seconds`.
            RuntimeError: The calling thread holds the only turn already.
        """
        if self._is_exclusive and self._holder == threading.get_ident():
            raise RuntimeError("a write transaction inside another one would wait for itself")
        remaining = self._acquire(seconds, precedence)
        self._holder = threading.get_ident()
        try:
            yield remaining
        finally:
            self._holder = None
            self._release()

    def _acquire(self, seconds: float, precedence: Precedence) -> float:
        with self._guard:
            if self._free >= self._needed[precedence] and not self._gates[precedence]:
                self._free -= 1
                return seconds
            gate = threading.Lock()
            gate.acquire()
            self._gates[precedence].append(gate)
        start = time.monotonic()
        if not gate.acquire(timeout=seconds):
            with self._guard:
                if gate in self._gates[precedence]:
                    self._gates[precedence].remove(gate)
                    raise StoreUnavailable(
                        f"The store is locked or overloaded: no turn to write came within"
                        f" {describe_duration(seconds)}."
                    )
            # The turn came just after the time was over: this thread holds it.
        return max(seconds - (time.monotonic() - start), 0.0)

    def _release(self) -> None:
        with self._guard:
            self._free += 1
            ready = [
                each
                for each in Precedence
                if self._gates[each] and self._free >= self._needed[each]
            ]
            if not ready:
                return
            late = [each for each in ready if self._passed[each] >= _LONGEST_SERIES]
            chosen = (late or ready)[0]
            for each in ready:
                self._passed[each] = 0 if each is chosen else self._passed[each] + 1
            self._free -= 1
            self._gates[chosen].popleft().release()
