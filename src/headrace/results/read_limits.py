"""Limits of reads from drivers: the time of each, and the bytes that all of them buffer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from headrace.errors import ResultsUnavailable

_T = TypeVar("_T")
_MAX_BUFFERED = 512 << 20
_READ = threading.local()


def run_within(seconds: float, function: Callable[[], _T]) -> _T:
    """Run a function whose reads from drivers end within that time, and return its result."""
    _READ.deadline = time.monotonic() + seconds
    try:
        return function()
    finally:
        del _READ.deadline


def limit_seconds(longest: float) -> float:
    """Return the seconds that the next call of this thread may take, at most `longest`.

    Raise ResultsUnavailable if the time of the read is over.
    """
    deadline: float | None = getattr(_READ, "deadline", None)
    if deadline is None:
        return longest
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise ResultsUnavailable(
            "The driver does not send the rows in time.",
            hint="Try again later, or submit the statement again with the disposition stored.",
        )
    return min(longest, remaining)


class BufferLimit:
    """The bytes that reads from drivers buffer before they check them. Thread-safe."""

    def __init__(self, limit: int = _MAX_BUFFERED) -> None:
        self._limit = limit
        self._used = 0
        self._lock = threading.Lock()

    @contextmanager
    def buffering(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts bytes of one read; they are free at the end of the block.

        The function raises ResultsUnavailable above the limit.
        """
        counted = 0

        def count(size: int) -> None:
            nonlocal counted
            with self._lock:
                if self._used + size > self._limit:
                    raise ResultsUnavailable(
                        "This node reads too many rows from drivers at the moment.",
                        hint="Try again later.",
                    )
                self._used += size
                counted += size

        try:
            yield count
        finally:
            with self._lock:
                self._used -= counted
