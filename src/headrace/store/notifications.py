"""Wake-ups inside one process. They are hints: losing one costs a poll interval, nothing else.

Topics are `session:<id>`, `statement:<id>`, LAUNCH (a session waits for its driver) and EVENTS
(the event log grew).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

LAUNCH = "launch"
EVENTS = "events"

_log = logging.getLogger(__name__)


def session_topic(session_id: str) -> str:
    """Woken by the changes of this session and its statements that concern its driver."""
    return f"session:{session_id}"


def statement_topic(statement_id: str) -> str:
    """Woken by the end of this statement."""
    return f"statement:{statement_id}"


class Subscription:
    """Interest in one topic, from the moment of `subscribe` until `close`.

    A wake-up that comes before `wait` is kept for it; several become one.
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
        """Block for at most `timeout` seconds; whether a wake-up came. Clears it."""
        with self._condition:
            woken = self._condition.wait_for(lambda: self._woken, timeout)
            self._woken = False
            return woken

    def wake(self) -> None:
        """Let one `wait` through, and call the callback in this thread."""
        with self._condition:
            self._woken = True
            self._condition.notify_all()
        if self._callback is None:
            return
        try:
            self._callback()
        except Exception:  # noqa: BLE001 - the publisher has committed, and others are to be woken
            _log.exception("a callback for %s failed", self.topic)

    def close(self) -> None:
        """Lose interest. Harmless when repeated."""
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
    """Who waits for what. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: dict[str, set[Subscription]] = {}

    def subscribe(self, topic: str, callback: Callable[[], None] | None = None) -> Subscription:
        """Wait for a topic. `callback` runs in the publishing thread: it must be quick."""
        subscription = Subscription(self, topic, callback)
        with self._lock:
            self._topics.setdefault(topic, set()).add(subscription)
        return subscription

    def discard(self, subscription: Subscription) -> None:
        """Forget a subscription, and its topic when it was the last."""
        with self._lock:
            waiting = self._topics.get(subscription.topic, set())
            waiting.discard(subscription)
            if not waiting:
                self._topics.pop(subscription.topic, None)

    def publish(self, topics: Iterable[str]) -> None:
        """Wake everyone who waits for one of these."""
        with self._lock:
            woken = [entry for topic in topics for entry in self._topics.get(topic, ())]
        for subscription in woken:
            subscription.wake()

    def publish_all(self) -> None:
        """Wake everyone: news may have been missed."""
        with self._lock:
            woken = [entry for waiting in self._topics.values() for entry in waiting]
        for subscription in woken:
            subscription.wake()

    @property
    def topics(self) -> int:
        """How many topics are waited for."""
        with self._lock:
            return len(self._topics)
