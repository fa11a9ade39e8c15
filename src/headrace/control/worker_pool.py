"""Threads for work that may hang, such as the access to a results location.

A call has a time limit. The thread of a call that exceeds the limit is abandoned and replaced, so
that a hanging file system neither blocks other work nor the end of the process.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

from headrace.errors import ResultsUnavailable
from headrace.model.statement import Statement
from headrace.results.read_limits import run_within
from headrace.text.readable import describe_duration

_LOG = logging.getLogger("headrace.node")
_MAX_ABANDONED = 32

P = ParamSpec("P")
T = TypeVar("T")
_Job = tuple[Future[Any], Callable[[], Any]]


class WorkerPool:
    """A bounded number of daemon threads."""

    def __init__(
        self, name: str, *, threads: int, seconds: float, storage: str = "results location"
    ) -> None:
        """Create the pool; the threads start with the first calls.

        Args:
            seconds: Longest time from the call to its result.
            storage: What the calls use, for the error of a call that takes too long.
        """
        self._name = name
        self._seconds = seconds
        self._storage = storage
        self._max_threads = threads
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread_count = 0
        self._unfinished_count = 0
        """Jobs that wait for a thread or run, without those that were abandoned while they ran."""
        self._abandoned: set[Future[Any]] = set()

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function and return its result.

        Raises its errors, and ResultsUnavailable if it takes too long.
        """
        future = self.submit(lambda: function(*args, **kwargs))
        try:
            result: T = future.result(self._seconds)
        except TimeoutError:
            if future.done():
                raise
            self._abandon(future)
            raise self._timeout_error() from None
        return result

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function as `call` does, without a thread that waits for it."""
        result: T = await self.wait(self.submit(lambda: function(*args, **kwargs)))
        return result

    async def wait(self, future: Future[T]) -> T:
        """Return the result of a submitted function. Raises what `call` raises."""
        wrapped = asyncio.wrap_future(future)
        wrapped.add_done_callback(_retrieve_error)
        try:
            done, _pending = await asyncio.wait([wrapped], timeout=self._seconds)
        finally:
            if not future.done():
                self._abandon(future)
        if not done:
            raise self._timeout_error()
        return wrapped.result()

    def _timeout_error(self) -> ResultsUnavailable:
        return ResultsUnavailable(
            f"The {self._storage} did not answer within {describe_duration(self._seconds)}.",
            hint=f"Check the {self._storage}, then try again.",
        )

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Run a function in a thread. The future is done when the thread is free again."""
        future: Future[T] = Future()
        with self._lock:
            self._unfinished_count += 1
            self._jobs.put((future, function))
            self._start_thread_if_needed()
        return future

    def _start_thread_if_needed(self) -> None:
        """Start a thread if there are more jobs than threads. Call this with the lock."""
        # A count of idle threads would include threads that have just received a job.
        if self._thread_count >= min(self._unfinished_count, self._max_threads):
            return
        self._thread_count += 1
        threading.Thread(target=self._work, name=f"headrace-{self._name}", daemon=True).start()

    def _work(self) -> None:
        while True:
            future, function = self._jobs.get()
            if future.set_running_or_notify_cancel():
                _complete(future, function)
            with self._lock:
                if future in self._abandoned:
                    # Another thread has replaced this one.
                    self._abandoned.remove(future)
                    return
                self._unfinished_count -= 1

    def _abandon(self, future: Future[Any]) -> None:
        """Give up a call. Replace its thread if it has one."""
        if future.cancel():
            return
        with self._lock:
            if future.done() or future in self._abandoned:
                return
            if len(self._abandoned) >= _MAX_ABANDONED:
                _LOG.error("%s: too many calls hang; a thread is not replaced", self._name)
                return
            self._abandoned.add(future)
            self._unfinished_count -= 1
            self._thread_count -= 1
            self._start_thread_if_needed()


def _retrieve_error(future: asyncio.Future[Any]) -> None:
    """Retrieve the error of an abandoned call, which asyncio would otherwise log."""
    if not future.cancelled():
        future.exception()


def _complete(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 - the caller receives the error
        future.set_exception(error)
    else:
        future.set_result(result)


_THREADS = 8
_HELD_THREADS = 32
"""Threads that wait for drivers. More than `_SESSION_READS` for each of a few slow drivers."""
_SECONDS = 60.0
_SESSION_READS = 2
"""Reads of the held results of one session at a time."""


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
