"""Limits of the calls of drivers: of one driver, and the threads for those of all drivers.

No driver can use up the connections of the node. Calls of drivers do not wait for a thread behind
the requests of clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

from anyio import CapacityLimiter
from fastapi import Request

from headrace.errors import TooManyCalls
from headrace.model.session import DriverLease

_MAX_CALLS = 32
"""Largest number of calls of one lease in flight. A driver has 8 connections. It repeats a call
that has not been answered for 10 seconds, while the node still works on the first one."""

_THREADS = 20
"""Largest number of threads that work on calls of drivers."""


class LinkCalls:
    """The calls of drivers that this node works on. Only the event loop uses it."""

    def __init__(self) -> None:
        self._in_flight: Counter[DriverLease] = Counter()
        self._polls: dict[DriverLease, OpenPoll] = {}

    @cached_property
    def threads(self) -> CapacityLimiter:
        """The limit of threads that work on calls of drivers."""
        return CapacityLimiter(_THREADS)

    @contextmanager
    def admit(self, lease: DriverLease) -> Iterator[None]:
        """Count a call until the end of the block. Raise TooManyCalls at the limit."""
        if self._in_flight[lease] >= _MAX_CALLS:
            raise TooManyCalls(f"The driver has {_MAX_CALLS} calls in flight.")
        self._in_flight[lease] += 1
        try:
            yield
        finally:
            self._in_flight[lease] -= 1
            if not self._in_flight[lease]:
                del self._in_flight[lease]

    @contextmanager
    def open_poll(self, lease: DriverLease) -> Iterator[OpenPoll]:
        """Make a poll the only one of its lease, and release the poll before it.

        A driver keeps one poll open, and has given up an older one.
        """
        older = self._polls.get(lease)
        poll = self._polls[lease] = OpenPoll()
        if older is not None:
            older.release()
        try:
            yield poll
        finally:
            if self._polls.get(lease) is poll:
                del self._polls[lease]


class OpenPoll:
    """A poll that a newer poll of the same lease can release."""

    def __init__(self) -> None:
        self.released = False
        self._wake: Callable[[], None] = lambda: None

    @contextmanager
    def subscribe(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` when the poll is released, until the end of the block."""
        self._wake = wake
        yield

    def release(self) -> None:
        """Let the poll return without orders."""
        self.released = True
        self._wake()


def link_calls_of(request: Request) -> LinkCalls:
    """Return the calls of drivers that the node works on."""
    link_calls: LinkCalls = request.app.state.link_calls
    return link_calls
