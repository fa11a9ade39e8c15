"""Waiting for a change in the store without holding a thread."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from headrace.store.database import Database

T = TypeVar("T")


class Waiters:
    """Everyone who waits at this node; they are let go when it ends."""

    def __init__(self, database: Database, *, poll_seconds: float = 1.0) -> None:
        self._database = database
        self._poll_seconds = poll_seconds
        self._wakes: set[Callable[[], None]] = set()
        self._ending = False

    @property
    def ending(self) -> bool:
        """Whether the node is ending."""
        return self._ending

    def release(self) -> None:
        """Lets all go, now and from now on. Safe from any thread and from a signal handler."""
        self._ending = True
        for wake in list(self._wakes):
            wake()

    async def until(
        self, topic: str, look: Callable[[], Awaitable[T | None]], *, seconds: float
    ) -> T | None:
        """What `look` finds, asked at once, on each wake-up of the topic, and now and then.

        None when the time is over. A wake-up is a hint: a lost one costs the poll interval.
        """
        with self.interest(topic) as interest:
            return await look() or await interest.until(look, seconds=seconds)

    @contextmanager
    def interest(self, topic: str) -> Iterator[Interest]:
        """Keeps wake-ups of a topic for `Interest.until`, from now to the end of the block."""
        loop = asyncio.get_running_loop()
        interest = Interest(self, self._poll_seconds)

        def wake() -> None:
            loop.call_soon_threadsafe(interest.event.set)

        self._wakes.add(wake)
        try:
            with self._database.notifications.subscribe(topic, wake):
                yield interest
        finally:
            self._wakes.discard(wake)


class Interest:
    """The wake-ups of one topic that have come and were not looked at yet."""

    def __init__(self, waiters: Waiters, poll_seconds: float) -> None:
        self.event = asyncio.Event()
        self._waiters = waiters
        self._poll_seconds = poll_seconds

    async def until(self, look: Callable[[], Awaitable[T | None]], *, seconds: float) -> T | None:
        """What `look` finds, asked on each wake-up, and now and then. None when time is over."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._waiters.ending:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, self._poll_seconds)):
                    await self.event.wait()
            self.event.clear()
            found = await look()
            if found is not None:
                return found
        return None
