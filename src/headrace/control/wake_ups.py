"""Subscriptions to changes in the store, for callers that wait.

A wake-up is a hint: a waiting caller also polls, so a lost wake-up costs one poll interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.store.database import Database
from headrace.store.notifications import EVENTS, Subscription, session_topic, statement_topic

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
