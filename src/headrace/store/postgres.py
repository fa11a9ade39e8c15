"""A store in PostgreSQL, which any number of nodes share."""

from __future__ import annotations

import math
from typing import Any

import psycopg
from sqlalchemy import URL, Engine, create_engine

# A node that hangs must not hold others up for ever: its locks go with its transaction.
_LIMITS = {
    "timezone": "UTC",
    "lock_timeout": "15s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "30s",
}
# A peer that vanished without a word is noticed within half a minute.
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def address(url: URL, connect_timeout: float) -> dict[str, Any]:
    """Arguments for psycopg.connect."""
    own = url.query.get("options", "")
    given = own if isinstance(own, str) else " ".join(own)
    limits = " ".join(f"-c {name}={value}" for name, value in _LIMITS.items())
    plain = url.set(drivername="postgresql").difference_update_query(["options"])
    return {
        "conninfo": plain.render_as_string(hide_password=False),
        **_KEEPALIVE,
        # libpq takes whole seconds, and 0 means for ever.
        "connect_timeout": max(1, math.ceil(connect_timeout)),
        "application_name": "headrace",
        "options": f"{limits} {given}".strip(),
    }


def engines(address: dict[str, Any], *, pool_size: int, timeout: float) -> tuple[Engine, Engine]:
    """An engine for readers, which need no BEGIN, and one for writers, over the same pool.

    Connections are tried before use, so that a restart of the server heals.
    """
    writers = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(**address),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=timeout,
        pool_pre_ping=True,
    )
    return writers.execution_options(isolation_level="AUTOCOMMIT"), writers
