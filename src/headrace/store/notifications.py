"""Wake-ups inside one process.

Wake-ups are hints: a lost wake-up only costs a poll interval. Topics are `session:<id>`,
`statement:<id>`, LAUNCH (a session needs a driver), OPERATIONS (a node has work to do), EVENTS (the
event log has grown) and HEARTBEAT (a node has renewed its lease).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

LAUNCH = "launch"
HEARTBEAT = "heartbeat"
EVENTS = "events"
OPERATIONS = "operations"
SESSION = "session"
STATEMENT = "statement"

_log = logging.getLogger(__name__)


def session_topic(session_id: str) -> str:
    """Return the topic of changes that concern a session's driver."""
    return f"{SESSION}:{session_id}"


def statement_topic(statement_id: str) -> str:
    """Return the topic of a statement's end."""
    return f"{STATEMENT}:{statement_id}"


class Subscription:
    """A subscription to one topic, until `close`.

    A wake-up that arrives before `wait` is kept until `wait`. Several wake-ups count as one.
    """

    def __init__(
        self, notifications: Notifications, topic: str, callback: Callable[[], None] | None
    ) -> None:
        self.topic = topic
        self._notifications = notifications
        self._callback = callback
        self._condition = threading.Condition()
        self._woken = False

    def wait(self, timeout: float) -> bool:
        """Wait for a wake-up and clear it. Return False if none came within `timeout` seconds."""
        with self._condition:
            woken = self._condition.wait_for(lambda: self._woken, timeout)
            self._woken = False
            return woken

    def wake(self) -> None:
        """Let one `wait` return, and call the callback in this thread."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()
        if self._callback is None:
            return
        try:
            self._callback()
        except Exception:  # noqa: BLE001 - the commit is done, and other subscribers must be woken
            _log.exception("The callback for topic %s failed", self.topic)

    def close(self) -> None:
        """Cancel the subscription. A repeated call does nothing."""
        self._notifications.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Notifications:
    """The subscriptions of one process. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: dict[str, set[Subscription]] = {}

    def subscribe(self, topic: str, callback: Callable[[], None] | None = None) -> Subscription:
        """Subscribe to a topic. The callback runs in the publishing thread, so it must be quick."""
        subscription = Subscription(self, topic, callback)
        with self._lock:
            self._topics.setdefault(topic, set()).add(subscription)
        return subscription

    def discard(self, subscription: Subscription) -> None:
        """Remove a subscription, and its topic if the topic has no other subscription."""
        with self._lock:
            subscriptions = self._topics.get(subscription.topic, set())
            subscriptions.discard(subscription)
            if not subscriptions:
                self._topics.pop(subscription.topic, None)

    def publish(self, topics: Iterable[str]) -> None:
        """Wake the subscribers of these topics."""
        with self._lock:
            woken = [entry for topic in topics for entry in self._topics.get(topic, ())]
        for subscription in woken:
            subscription.wake()

    def publish_all(self) -> None:
        """Wake every subscriber, because wake-ups may have been missed."""
        with self._lock:
            woken = [entry for entries in self._topics.values() for entry in entries]
        for subscription in woken:
            subscription.wake()

    def find_subscribed(self, topics: Iterable[str]) -> list[str]:
        """Return those of the topics that have a subscription."""
        with self._lock:
            return [topic for topic in topics if topic in self._topics]

    @property
    def topics(self) -> int:
        """Number of topics with a subscription."""
        with self._lock:
            return len(self._topics)
