"""Requests that wait for a change in the store: the subscriptions to changes, and the long polls.

A wake-up is a hint: a waiting request also polls, so a lost wake-up costs one poll interval.

A request of an event loop holds no thread while it waits. A request that has a thread of its own,
as in a server of Thrift or gRPC, waits in this thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import TypeVar

from headrace.store.database import Database
from headrace.store.notifications import EVENTS, Subscription, session_topic, statement_topic

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

    def wait_in_thread(
        self,
        subscribe: Subscribe,
        check: Callable[[], T | None],
        *,
        seconds: float,
        rereads: Rereads = Rereads.STEADY,
    ) -> T | None:
        """Do what `wait` does, in the thread that calls it."""
        pauses = _Pauses(self._hears_wake_ups, self._poll_seconds, seconds, rereads)
        woken = threading.Event()
        with self._registered(woken.set), subscribe(woken.set):
            result = check()
            while result is None and (pause := pauses.next()) > 0 and not self._stopping:
                was_woken = woken.wait(pause)
                if pauses.is_check_due(was_woken=was_woken):
                    woken.clear()
                    result = check()
            return result

    @contextmanager
    def _registered(self, wake: Callable[[], None]) -> Iterator[None]:
        """Let the end of the node wake a request, until the end of the block."""
        self._wake_callbacks.add(wake)
        try:
            yield
        finally:
            self._wake_callbacks.discard(wake)

    @contextmanager
    def subscribed(self, subscribe: Subscribe) -> Iterator[LongPoll]:
        """Collect wake-ups for `LongPoll.wait` from now to the end of the block."""
        loop = asyncio.get_running_loop()
        poll = LongPoll(self, self._hears_wake_ups, self._poll_seconds)

        def wake() -> None:
            loop.call_soon_threadsafe(poll.woken.set)

        with self._registered(wake), subscribe(wake):
            yield poll


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
        pauses = _Pauses(self._hears_wake_ups, self._poll_seconds, seconds, rereads)
        while (pause := pauses.next()) > 0 and not self._long_polls.stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.woken.wait()
            self.was_woken = self.woken.is_set()
            if not pauses.is_check_due(was_woken=self.was_woken):
                continue
            self.woken.clear()
            result = await check()
            if result is not None:
                return result
        return None


class _Pauses:
    """How long one request waits for a wake-up, and whether it then reads the store."""

    def __init__(
        self,
        hears_wake_ups: Callable[[], bool],
        poll_seconds: float,
        seconds: float,
        rereads: Rereads,
    ) -> None:
        self._hears_wake_ups = hears_wake_ups
        self._poll_seconds = self._interval = poll_seconds
        self._deadline = time.monotonic() + seconds
        self._rereads = rereads

    def next(self) -> float:
        """Return the length of the next pause; 0 or less when the time of the request is over."""
        return min(self._deadline - time.monotonic(), self._interval)

    def is_check_due(self, *, was_woken: bool) -> bool:
        """Return whether the request reads the store after a pause."""
        is_regular = self._rereads is Rereads.STEADY or not self._hears_wake_ups()
        longer = min(2 * self._interval, _LONGEST_INTERVAL)
        self._interval = self._poll_seconds if is_regular else longer
        return self._rereads is not Rereads.NEVER or was_woken or is_regular


Callback = Callable[[], None]
"""Runs in the thread that publishes the change, so it must return quickly."""


class WakeUps:
    """Subscriptions of one node. A subscription lasts until its context manager exits."""

    def __init__(self, database: Database) -> None:
        self._notifications = database.notifications

    def on_statement_end(self, statement_id: str, callback: Callback) -> Subscription:
        """Call back when the statement ends."""
        return self._notifications.subscribe(statement_topic(statement_id), callback)

    def on_session_change(self, session_id: str, callback: Callback) -> Subscription:
        """Call back when the driver of the session should poll."""
        return self._notifications.subscribe(session_topic(session_id), callback)

    def on_event(self, callback: Callback) -> Subscription:
        """Call back when the event log grows."""
        return self._notifications.subscribe(EVENTS, callback)


class AwaitedEnds:
    """The callbacks of waiting requests, by statement. Any thread may use it."""

    def __init__(self) -> None:
        # Every operation on it is atomic.
        self._callbacks: dict[str, Callable[[], None]] = {}

    @contextmanager
    def register(self, statement_id: str, callback: Callable[[], None]) -> Iterator[None]:
        """Call back when a driver has reported the end, until the end of the block.

        The callback runs in the thread that has stored the end, before the wake-ups. An end that
        nothing reports here, for example at another node, only sends wake-ups: a request subscribes
        to these too. A statement has one callback.
        """
        self._callbacks[statement_id] = callback
        try:
            yield
        finally:
            del self._callbacks[statement_id]

    def call_back(self, statement_id: str) -> None:
        """Call back the request that waits for this statement, if there is one."""
        callback = self._callbacks.get(statement_id)
        if callback is not None:
            callback()
