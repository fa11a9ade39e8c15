"""Connections to a PostgreSQL store, which any number of nodes share, and their wake-ups."""

from __future__ import annotations

import logging
import math
import os
import random
import selectors
import threading
import time
from functools import partial
from typing import Any

import psycopg
from sqlalchemy import URL, Dialect, Engine, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

from headrace.store.notifications import CHANNEL, Notifications, decode_wake_ups

# A node that hangs must not block other nodes for ever: the end of its transaction frees its locks.
_LIMITS = {
    "timezone": "UTC",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "30s",
}
_DRIVER = "postgresql+psycopg://"
_USED_AT = "used_at"
_UNTESTED_SECONDS = 0.1
# libpq detects a peer that vanished within half a minute. tcp_user_timeout is in milliseconds.
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def _remember_use(_connection: Any, record: Any) -> None:
    record.info[_USED_AT] = time.monotonic()


def _test_if_old(dialect: Dialect, connection: Any, record: Any, _proxy: Any) -> None:
    """Raise InvalidatePoolError if the server has closed a connection of the pool.

    A test takes as long as a small query. A restart of the server takes longer than the pause.
    """
    used_at = record.info.get(_USED_AT)
    if used_at is None or time.monotonic() - used_at < _UNTESTED_SECONDS:
        return
    try:
        dialect.do_ping(connection)
    except psycopg.Error as error:
        raise InvalidatePoolError from error


def connect_arguments(url: URL, connect_timeout: float) -> dict[str, Any]:
    """Return the arguments of `psycopg.connect` for a URL. Options in the URL take precedence."""
    options = url.query.get("options", "")
    user_options = options if isinstance(options, str) else " ".join(options)
    limits = _LIMITS | {"lock_timeout": f"{max(1, int(connect_timeout * 1000))}ms"}
    limit_options = " ".join(f"-c {name}={value}" for name, value in limits.items())
    plain = url.set(drivername="postgresql").difference_update_query(["options"])
    return {
        "conninfo": plain.render_as_string(hide_password=False),
        **_KEEPALIVE,
        # libpq accepts whole seconds, and 0 means no timeout.
        "connect_timeout": max(1, math.ceil(connect_timeout)),
        "application_name": "headrace",
        "options": f"{limit_options} {user_options}".strip(),
    }


def create_engines(
    arguments: dict[str, Any], *, pool_size: int, timeout: float
) -> tuple[Engine, Engine]:
    """Return an engine for readers and one for writers, over the same pool.

    Readers run without a transaction. The pool tests a connection that was not used for a while, so
    that a restart of the server goes unnoticed.
    """
    # Parameters contain the data of users, and errors are logged.
    readers = create_engine(
        _DRIVER,
        creator=lambda: psycopg.connect(**arguments, autocommit=True),
        pool_size=pool_size,
        max_overflow=0,
        hide_parameters=True,
        pool_timeout=timeout,
    )
    writers = create_engine(_DRIVER, pool=readers.pool, hide_parameters=True)
    # An isolation level of the readers would be set and reset for each read.
    event.listen(writers, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    event.listen(readers, "checkin", _remember_use)
    event.listen(readers, "checkout", partial(_test_if_old, readers.dialect))
    return readers, writers


_LOG = logging.getLogger("headrace.store")
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
                _LOG.warning("Lost the connection for wake-ups from the store: %s", error)
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
