"""Wake-ups inside one process.

Wake-ups are hints: a lost wake-up only costs a poll interval. Topics are `session:<id>`,
`statement:<id>`, LAUNCH (a session needs a driver), OPERATIONS (a node has work to do), EVENTS (the
event log has grown), WEBHOOKS (an owner has a new webhook) and HEARTBEAT (a node has renewed its
lease).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, text

LAUNCH = "launch"
HEARTBEAT = "heartbeat"
EVENTS = "events"
OPERATIONS = "operations"
WEBHOOKS = "webhooks"
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


CHANNEL = "headrace"
SEVERAL = "*"
"""In place of a process in `statements.awaited_by`: more than one process waits."""
NO_PROCESS = ""
"""In place of a process: none waits."""
_TOPICS_AT_ONCE = 150
"""Topics in one payload. PostgreSQL refuses payloads of 8,000 bytes, and a topic has up to 45."""

_FIND_WAITERS = text("""
    SELECT concat('session:', id),
      CASE WHEN state IN ('not_started', 'starting') THEN '' ELSE link_process END
    FROM sessions WHERE id = ANY(:sessions)
    UNION ALL
    SELECT concat('statement:', id), coalesce(awaited_by, '')
    FROM statements WHERE id = ANY(:statements)
""")
_NOTIFY = text("SELECT pg_notify(:channel, :payload)")


def send_wake_ups(
    connection: Connection,
    process: str,
    topics: Collection[str],
    waiters: Mapping[str, str | None],
    *,
    polled: Collection[str],
) -> None:
    """Send wake-ups with the commit of a transaction, to the processes that wait.

    Args:
        process: The process that sends them.
        waiters: The process that waits, by topic; None: it is not known. Those of other topics of
            sessions and statements are read.
        polled: Those of the topics to which this process subscribes. A driver that polls a process
            of an older version, which does not write `link_process`, is thus not mistaken for a
            driver that polls this one.
    """
    unknown = [topic for topic in topics if topic not in waiters]
    waiters = {**waiters, **_read_waiters(connection, unknown)}
    remaining = [
        topic
        for topic in topics
        if _needs_wake_up(process, topic, waiters.get(topic), is_polled=topic in polled)
    ]
    while remaining:
        some, remaining = remaining[:_TOPICS_AT_ONCE], remaining[_TOPICS_AT_ONCE:]
        payload = "\n".join([process, *some])
        connection.execute(_NOTIFY, {"channel": CHANNEL, "payload": payload})


def decode_wake_ups(payload: str, process: str) -> Sequence[str]:
    """Return the topics of the payload of another process; none for one of this process."""
    sender, *topics = payload.split("\n")
    return [] if sender == process else topics


def _needs_wake_up(process: str, topic: str, waiter: str | None, *, is_polled: bool) -> bool:
    if waiter == NO_PROCESS:
        return False
    return waiter != process or (topic.startswith(f"{SESSION}:") and not is_polled)


def _read_waiters(connection: Connection, topics: Collection[str]) -> dict[str, str | None]:
    ids: dict[str, list[str]] = {SESSION: [], STATEMENT: []}
    for topic in topics:
        kind, _, topic_id = topic.partition(":")
        if kind in ids:
            ids[kind].append(topic_id)
    if not any(ids.values()):
        return {}
    names = {"sessions": ids[SESSION], "statements": ids[STATEMENT]}
    return {row[0]: row[1] for row in connection.execute(_FIND_WAITERS, names)}
