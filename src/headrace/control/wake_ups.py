"""Subscriptions to changes in the store, for callers that wait.

A wake-up is a hint: a waiting caller also polls, so a lost wake-up costs one poll interval.
"""

from __future__ import annotations

from collections.abc import Callable

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
