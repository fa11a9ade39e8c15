"""Connections to a PostgreSQL store, which any number of nodes share."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import psycopg
from sqlalchemy import URL, Dialect, Engine, create_engine, event
from sqlalchemy.exc import InvalidatePoolError

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
