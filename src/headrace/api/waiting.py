"""Waiting for a change in the store without holding a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
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
        deadline = time.monotonic() + seconds
        loop = asyncio.get_running_loop()
        event = asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(event.set)

        self._wakes.add(wake)
        try:
            with self._database.signals.subscribe(topic, wake):
                while True:
                    event.clear()
                    found = await look()
                    left = deadline - time.monotonic()
                    if found is not None or left <= 0 or self._ending:
                        return found
                    try:
                        async with asyncio.timeout(min(left, self._poll_seconds)):
                            await event.wait()
                    except TimeoutError:
                        continue
        finally:
            self._wakes.discard(wake)
