"""Numbers of live statements, sessions and streaming queries, by state."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, func, select

from headrace.model.lifecycle import SESSION, STATEMENT, STREAM
from headrace.store.database import Tx
from headrace.store.stream_tables import stream_queries
from headrace.store.tables import sessions, statements


def live_statements(tx: Tx) -> dict[str, int]:
    """Count the statements that have not ended. Every live state is a key."""
    return dict.fromkeys(sorted(STATEMENT.live), 0) | _count_by_state(tx, statements)


def live_sessions(tx: Tx) -> dict[str, int]:
    """Count the sessions that have not ended. Every live state is a key."""
    return dict.fromkeys(sorted(SESSION.live), 0) | _count_by_state(tx, sessions)


def live_streams(tx: Tx) -> dict[str, int]:
    """Count the streaming queries that have not ended. Every live state is a key."""
    return dict.fromkeys(sorted(STREAM.live), 0) | _count_by_state(tx, stream_queries)


def _count_by_state(tx: Tx, table: Table) -> dict[Any, int]:
    state = table.c.state
    count = func.count().label("live")
    query = select(state, count).where(table.c.ended_at.is_(None)).group_by(state)
    return {row.state: row.live for row in tx.execute(query)}
