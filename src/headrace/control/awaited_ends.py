"""Ends of statements for which a request waits at this process.

The thread that stores the end of a statement also prepares the response. A wake-up would first pass
to the event loop and from there to another thread, while the node already answers the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
