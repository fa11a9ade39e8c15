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
from typing import Any, ParamSpec, TypeVar

from headrace.errors import ResultsUnavailable
from headrace.text.times import describe_duration

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
