"""Long polls: requests that wait for a change in the store without holding a thread."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import TypeVar

_LONGEST_INTERVAL = 8.0
"""Longest time between two checks without a wake-up, while wake-ups arrive."""
T = TypeVar("T")

Check = Callable[[], Awaitable[T | None]]
"""Reads the store; returns None while there is nothing to answer."""
Subscribe = Callable[[Callable[[], None]], AbstractContextManager[object]]
"""Subscribes a callback to wake-ups until the context manager exits."""


class Rereads(Enum):
    """When a request reads the store again although no wake-up has come, while wake-ups arrive.

    While they do not arrive, every request reads once per poll interval.
    """

    STEADY = "once per poll interval, because not every change sends a wake-up"
    RARE = "at growing intervals, because another process may have missed that the request waits"
    NEVER = "never, because most requests of the kind end without an answer"


class LongPolls:
    """All waiting requests of this node. They are released when the node stops."""

    def __init__(self, *, hears_wake_ups: Callable[[], bool], poll_seconds: float = 1.0) -> None:
        """Create it without any request.

        Args:
            hears_wake_ups: Returns whether the wake-ups of other nodes arrive.
            poll_seconds: Time between the first two checks without a wake-up.
        """
        self._hears_wake_ups = hears_wake_ups
        self._poll_seconds = poll_seconds
        self._wake_callbacks: set[Callable[[], None]] = set()
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether the node is stopping."""
        return self._stopping

    def release(self) -> None:
        """Release all requests, also later ones. Safe in any thread and in signal handlers."""
        self._stopping = True
        for wake in list(self._wake_callbacks):
            wake()

    async def wait(
        self,
        subscribe: Subscribe,
        check: Check[T],
        *,
        seconds: float,
        rereads: Rereads = Rereads.STEADY,
    ) -> T | None:
        """Call `check` at once, after each wake-up, and as `rereads` says.

        Returns:
            The first result of `check` that is not None. None after `seconds`, or when the node
            stops.
        """
        with self.subscribed(subscribe) as poll:
            return await check() or await poll.wait(check, seconds=seconds, rereads=rereads)

    @contextmanager
    def subscribed(self, subscribe: Subscribe) -> Iterator[LongPoll]:
        """Collect wake-ups for `LongPoll.wait` from now to the end of the block."""
        loop = asyncio.get_running_loop()
        poll = LongPoll(self, self._hears_wake_ups, self._poll_seconds)

        def wake() -> None:
            loop.call_soon_threadsafe(poll.woken.set)

        self._wake_callbacks.add(wake)
        try:
            with subscribe(wake):
                yield poll
        finally:
            self._wake_callbacks.discard(wake)


class LongPoll:
    """One waiting request, with the wake-ups that it has not handled yet."""

    def __init__(
        self, long_polls: LongPolls, hears_wake_ups: Callable[[], bool], poll_seconds: float
    ) -> None:
        self.woken = asyncio.Event()
        self.was_woken = True
        """Whether a wake-up is the reason for the current check."""
        self._long_polls = long_polls
        self._hears_wake_ups = hears_wake_ups
        self._poll_seconds = poll_seconds

    async def wait(
        self, check: Check[T], *, seconds: float, rereads: Rereads = Rereads.STEADY
    ) -> T | None:
        """Call `check` after each wake-up and as `rereads` says, for up to `seconds`.

        Return its first result that is not None, or None when the time is over or the node stops.
        """
        deadline = time.monotonic() + seconds
        interval = self._poll_seconds
        while (remaining := deadline - time.monotonic()) > 0 and not self._long_polls.stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(remaining, interval)):
                    await self.woken.wait()
            self.was_woken = self.woken.is_set()
            is_regular = rereads is Rereads.STEADY or not self._hears_wake_ups()
            interval = self._poll_seconds if is_regular else min(2 * interval, _LONGEST_INTERVAL)
            if rereads is Rereads.NEVER and not self.was_woken and not is_regular:
                continue
            self.woken.clear()
            result = await check()
            if result is not None:
                return result
        return None
