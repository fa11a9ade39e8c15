"""Connections to a PostgreSQL store, which any number of nodes share."""

from __future__ import annotations

import math
from typing import Any

import psycopg
from sqlalchemy import URL, Engine, create_engine

# A node that hangs must not block other nodes for ever: the end of its transaction frees its locks.
_LIMITS = {
    "timezone": "UTC",
    "lock_timeout": "15s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "30s",
}
# libpq detects a peer that vanished within half a minute. tcp_user_timeout is in milliseconds.
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def connect_arguments(url: URL, connect_timeout: float) -> dict[str, Any]:
    """Return the arguments of `psycopg.connect` for a URL. Options in the URL take precedence."""
    options = url.query.get("options", "")
    user_options = options if isinstance(options, str) else " ".join(options)
    limits = " ".join(f"-c {name}={value}" for name, value in _LIMITS.items())
    plain = url.set(drivername="postgresql").difference_update_query(["options"])
    return {
        "conninfo": plain.render_as_string(hide_password=False),
        **_KEEPALIVE,
        # libpq accepts whole seconds, and 0 means no timeout.
        "connect_timeout": max(1, math.ceil(connect_timeout)),
        "application_name": "headrace",
        "options": f"{limits} {user_options}".strip(),
    }


def create_engines(
    arguments: dict[str, Any], *, pool_size: int, timeout: float
) -> tuple[Engine, Engine]:
    """Return an engine for readers and one for writers, over the same pool.

    Readers run without BEGIN. The pool tests a connection before use, so that a restart of the
    server goes unnoticed.
    """
    writers = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(**arguments),
        pool_size=pool_size,
        max_overflow=0,
        # Parameters contain the data of users, and errors are logged.
        hide_parameters=True,
        pool_timeout=timeout,
        pool_pre_ping=True,
    )
    return writers.execution_options(isolation_level="AUTOCOMMIT"), writers
