"""Threads that read results.

Users' code runs in drivers: a driver that holds results can let every read of them take as long as
a call may last. Such reads have threads of their own, and each session uses a few of them at a
time. Other reads wait in the event loop, where they occupy no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable
from headrace.model.statement import Statement
from headrace.results.read_limits import run_within
from headrace.text.times import describe_duration

_THREADS = 8
_HELD_THREADS = 32
"""Threads that wait for drivers. More than `_SESSION_READS` for each of a few slow drivers."""
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
        self._held = WorkerPool(
            "held-reads", threads=_HELD_THREADS, seconds=seconds, storage="driver"
        )
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
                f" {describe_duration(self._seconds)}.",
                hint="Try again later, or submit the statement again with the disposition stored.",
            ) from None
        future = self._pool.submit(
            lambda: run_within(self._seconds, lambda: function(*args, **kwargs))
        )
        # The thread reads on when the caller has left. Its slot is in use until then.
        future.add_done_callback(partial(self._release, asyncio.get_running_loop()))
        return await self._pool.wait(future)

    def _release(self, loop: asyncio.AbstractEventLoop, _future: Future[Any]) -> None:
        with suppress(RuntimeError):  # the node has stopped
            loop.call_soon_threadsafe(self._slots.release)
