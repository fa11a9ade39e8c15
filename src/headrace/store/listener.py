"""Wake-ups between nodes that share a PostgreSQL store: LISTEN and NOTIFY on one channel."""

from __future__ import annotations

import logging
import os
import random
import selectors
import threading
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

import psycopg

from headrace.store.notifications import Notifications

CHANNEL = "headrace"

_log = logging.getLogger(__name__)
_PAYLOAD_LIMIT = 7900  # PostgreSQL refuses payloads of 8000 bytes and more
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class NotifyCodec:
    """Writes and reads payloads: the sender on the first line, a topic on each one after it."""

    def __init__(self) -> None:
        self.sender = uuid4().hex

    def payloads(self, topics: Iterable[str]) -> Iterator[str]:
        """As few payloads as hold all topics."""
        payload = self.sender
        for topic in topics:
            if len(payload) + len(topic) + 1 > _PAYLOAD_LIMIT:
                yield payload
                payload = self.sender
            payload = f"{payload}\n{topic}"
        yield payload

    def topics(self, payload: str) -> list[str]:
        """What another node woke; nothing when the payload is our own."""
        sender, *topics = payload.split("\n")
        return [] if sender == self.sender else topics


class Listener:
    """A thread that publishes other nodes' wake-ups here, and comes back when it loses its line.

    After each reconnect it wakes everyone, because news may have been missed.
    """

    def __init__(
        self, address: dict[str, Any], notify_codec: NotifyCodec, to: Notifications
    ) -> None:
        self._address = address
        self._notify_codec = notify_codec
        self._notifications = to
        self._stop_reader, self._stop_writer = os.pipe()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)
        self._thread.start()

    def wait_until_listening(self, timeout: float) -> bool:
        """Whether the line is up, within `timeout` seconds."""
        return self._listening.wait(timeout)

    def close(self) -> None:
        """End the thread."""
        os.write(self._stop_writer, b"x")
        self._thread.join()
        os.close(self._stop_reader)
        os.close(self._stop_writer)

    def _run(self) -> None:
        failures = 0
        while True:
            try:
                return self._listen()
            except psycopg.Error as error:
                failures = 1 if self._listening.is_set() else failures + 1
                self._listening.clear()
                _log.warning("the store's wake-ups are cut off: %s", error)
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures) * random.uniform(0.5, 1)  # noqa: S311
            if self._stopped(pause):
                return None

    def _listen(self) -> None:
        with psycopg.connect(**self._address, autocommit=True) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            self._listening.set()
            self._notifications.publish_all()
            self._forward(connection)

    def _forward(self, connection: psycopg.Connection) -> None:
        """Publish what comes, until asked to stop or the line breaks."""
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            selector.register(self._stop_reader, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._stop_reader in ready:
                    return
                for notice in connection.notifies(timeout=0):
                    self._notifications.publish(self._notify_codec.topics(notice.payload))

    def _stopped(self, timeout: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop_reader, selectors.EVENT_READ)
            return bool(selector.select(timeout))
