"""Threads that read results.

Users' code runs in drivers: a driver that holds results can let every read of them take as long as
a call may last. Such reads have threads of their own, and each session uses a few of them at a
time. Other reads wait in the event loop, where they occupy no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable
from headrace.model.statement import Statement

_THREADS = 8
_SECONDS = 60.0
_SESSION_READS = 2
"""Reads of the held results of one session at a time."""

P = ParamSpec("P")
T = TypeVar("T")


class Reads(Protocol):
    """Runs functions that read results."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function and return its result. Raise ResultsUnavailable if it takes too long."""
        ...


class ResultReads:
    """The threads of one node. Call its methods in the event loop."""

    def __init__(self, *, seconds: float = _SECONDS) -> None:
        """Create the pools; the threads start with the first reads.

        Args:
            seconds: Longest time that a read takes, and longest time that it waits for others.
        """
        self._stored = WorkerPool("result-reads", threads=_THREADS, seconds=seconds)
        self._held = WorkerPool("held-reads", threads=_THREADS, seconds=seconds, storage="driver")
        self._seconds = seconds
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def select(self, statement: Statement) -> Reads:
        """Return what runs the reads of a statement's result."""
        holder = None if statement.result is None else statement.result.holder
        if holder is None:
            return self._stored
        slots = self._slots.get(holder.session_id)
        if slots is None:
            slots = self._slots[holder.session_id] = asyncio.Semaphore(_SESSION_READS)
        return _HeldReads(self._held, slots, self._seconds)


class _HeldReads:
    """Reads of the held results of one session."""

    def __init__(self, pool: WorkerPool, slots: asyncio.Semaphore, seconds: float) -> None:
        self._pool = pool
        self._slots = slots
        self._seconds = seconds

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            async with asyncio.timeout(self._seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise ResultsUnavailable(
                "Other reads from the driver of this session have not ended within"
                f" {self._seconds:g} s.",
                hint="Try again later, or submit the statement again with the disposition stored.",
            ) from None
        try:
            return await self._pool.run(function, *args, **kwargs)
        finally:
            self._slots.release()
