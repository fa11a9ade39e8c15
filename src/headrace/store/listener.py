"""Wake-ups between nodes that share a PostgreSQL store: LISTEN and NOTIFY on one channel."""

from __future__ import annotations

import logging
import os
import random
import selectors
import threading
import time
from typing import Any

import psycopg

from headrace.store.notifications import CHANNEL, Notifications, decode_wake_ups

_log = logging.getLogger(__name__)
_MIN_BACKOFF = 0.1
_MAX_BACKOFF = 5.0


class Listener:
    """A thread that publishes the wake-ups of other nodes, and reconnects after an outage.

    After each connect it wakes every subscriber, because wake-ups may have been missed.
    """

    def __init__(self, address: dict[str, Any], process: str, notifications: Notifications) -> None:
        """Start the thread.

        Args:
            process: Identity of this process, which ignores its own wake-ups.
        """
        self._address = address
        self._process = process
        self._notifications = notifications
        self._stop_reader, self._stop_writer = os.pipe()
        self._listening = threading.Event()
        self._heard_at = 0.0
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)
        self._thread.start()

    def wait_until_listening(self, timeout: float) -> bool:
        """Wait for the connection. Return False if there is none after `timeout` seconds."""
        return self._listening.wait(timeout)

    def has_heard(self, within: float) -> bool:
        """Return whether the connection has worked within the last `within` seconds.

        A connection whose peer has vanished looks intact until its keepalive fails.
        """
        return self._listening.is_set() and time.monotonic() - self._heard_at < within

    def close(self) -> None:
        """Stop the thread and wait for its end."""
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
                _log.warning("Lost the connection for wake-ups from the store: %s", error)
            backoff = min(_MAX_BACKOFF, _MIN_BACKOFF * 2**failures) * random.uniform(0.5, 1)  # noqa: S311
            if self._wait_for_stop(backoff):
                return None

    def _listen(self) -> None:
        with psycopg.connect(**self._address, autocommit=True) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            self._heard_at = time.monotonic()
            self._listening.set()
            self._notifications.publish_all()
            self._forward(connection)

    def _forward(self, connection: psycopg.Connection) -> None:
        """Publish the wake-ups that arrive, until `close` is called or the connection breaks."""
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            selector.register(self._stop_reader, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._stop_reader in ready:
                    return
                for notice in connection.notifies(timeout=0):
                    self._heard_at = time.monotonic()
                    self._notifications.publish(decode_wake_ups(notice.payload, self._process))

    def _wait_for_stop(self, timeout: float) -> bool:
        """Return whether `close` is called within `timeout` seconds."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop_reader, selectors.EVENT_READ)
            return bool(selector.select(timeout))
