"""Numbers of live rows by state, and of rows that need the attention of an operator."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, Table, func, literal_column, select

from headrace.model.lifecycle import (
    JOB,
    NODE,
    SESSION,
    STATEMENT,
    STREAM,
    StatementState,
    StreamState,
)
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.tables import (
    jobs,
    nodes,
    operations,
    results,
    sessions,
    statements,
    stream_queries,
)

_FAILED_SECONDS = 3600.0
_DELETION_SECONDS = 600.0


def live_statements(tx: Tx) -> dict[str, int]:
    """Count the statements that have not ended. Every live state is a key."""
    return dict.fromkeys(sorted(STATEMENT.live), 0) | _count_by_state(tx, statements)


def live_sessions(tx: Tx) -> dict[str, int]:
    """Count the sessions that have not ended. Every live state is a key."""
    return dict.fromkeys(sorted(SESSION.live), 0) | _count_by_state(tx, sessions)


def live_streams(tx: Tx) -> dict[str, int]:
    """Count the streaming queries that have not ended. Every live state is a key."""
    return dict.fromkeys(sorted(STREAM.live), 0) | _count_by_state(tx, stream_queries)


def live_jobs(tx: Tx) -> dict[str, int]:
    """Count the jobs that are deployed, by state. Every state is a key."""
    return dict.fromkeys(sorted(JOB.live), 0) | _count_by_state(tx, jobs)


def live_nodes(tx: Tx) -> dict[str, int]:
    """Count the nodes that have not ended, by state. Every live state is a key."""
    return dict.fromkeys(sorted(NODE.live), 0) | _count_by_state(tx, nodes)


def expired_nodes(tx: Tx) -> int:
    """Count the nodes that have not ended and whose lease has expired."""
    return _count(tx, nodes, nodes.c.ended_at.is_(None), nodes.c.lease_until < clock())


def overdue_sessions(tx: Tx) -> int:
    """Count the live sessions whose driver has not renewed its lease in time."""
    return _count(
        tx,
        sessions,
        sessions.c.ended_at.is_(None),
        sessions.c.state.in_(sorted(SESSION.with_driver)),
        sessions.c.lease_until < clock(),
    )


def recently_failed_streams(tx: Tx) -> int:
    """Count the streaming queries that have failed within the last hour."""
    return _count(
        tx,
        stream_queries,
        stream_queries.c.ended_at.is_not(None),
        stream_queries.c.ended_at > clock(-_FAILED_SECONDS),
        stream_queries.c.state == StreamState.FAILED,
    )


def expired_results(tx: Tx) -> int:
    """Count the results that expired more than 10 minutes ago and are not deleted."""
    return _count(
        tx, results, results.c.gone_at.is_(None), results.c.expires_at < clock(-_DELETION_SECONDS)
    )


def oldest_waiting_seconds(tx: Tx) -> float:
    """Return for how long the statement that waits longest has waited; 0 if none waits."""
    query = select(seconds_since(statements.c.waiting_since)).where(
        statements.c.ended_at.is_(None),
        # A bound parameter would not match the condition of the index.
        statements.c.state == literal_column(f"'{StatementState.WAITING}'"),
    )
    return _first(tx, query.order_by(statements.c.waiting_since))


def oldest_operation_seconds(tx: Tx) -> float:
    """Return the age of the oldest operation that has not ended; 0 if there is none."""
    query = select(seconds_since(operations.c.created_at)).where(operations.c.ended_at.is_(None))
    return _first(tx, query.order_by(operations.c.created_at))


def _count(tx: Tx, table: Table, *conditions: ColumnElement[bool]) -> int:
    count: int = tx.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one()
    return count


def _first(tx: Tx, query: Select[Any]) -> float:
    """Return the first value of a query, but no negative one; 0 without a row."""
    value = tx.execute(query.limit(1)).scalar_one_or_none()
    return max(0.0, value or 0.0)


def _count_by_state(tx: Tx, table: Table) -> dict[Any, int]:
    state = table.c.state
    count = func.count().label("live")
    query = select(state, count).where(table.c.ended_at.is_(None)).group_by(state)
    return {row.state: row.live for row in tx.execute(query)}
