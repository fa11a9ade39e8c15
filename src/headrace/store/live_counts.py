"""Metrics of the store: live rows by state, and what needs the attention of an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Table, func, literal_column, select

from headrace.model.lifecycle import (
    JOB,
    NODE,
    RUN,
    SESSION,
    STATEMENT,
    STREAM,
    Lifecycle,
    RunState,
    StatementState,
    StreamState,
)
from headrace.model.run import RUN_KIND
from headrace.store import transactions
from headrace.store.clock import clock, read_clock, seconds_since
from headrace.store.database import Tx
from headrace.store.tables import (
    deliveries,
    job_schedules,
    jobs,
    nodes,
    operations,
    results,
    runs,
    sessions,
    statements,
    stream_queries,
)

_FAILED_SECONDS = 3600.0
_DELETION_SECONDS = 600.0


_LIVE: Mapping[str, tuple[Lifecycle[Any], Table]] = {
    "sessions": (SESSION, sessions),
    "statements": (STATEMENT, statements),
    "streams": (STREAM, stream_queries),
    "jobs": (JOB, jobs),
    "runs": (RUN, runs),
    "nodes": (NODE, nodes),
}
"""Objects whose live rows are counted by state."""


def count_live(tx: Tx) -> dict[str, dict[str, int]]:
    """Count the live objects of each kind by state. Every live state is a key."""
    return {
        kind: dict.fromkeys(sorted(lifecycle.live), 0) | _count_by_state(tx, table)
        for kind, (lifecycle, table) in _LIVE.items()
    }


def _expired_nodes(tx: Tx) -> int:
    """Count the nodes that have not ended and whose lease has expired."""
    return _count(tx, nodes, nodes.c.ended_at.is_(None), nodes.c.lease_until < clock())


def _overdue_sessions(tx: Tx) -> int:
    """Count the live sessions whose driver has not renewed its lease in time."""
    return _count(
        tx,
        sessions,
        sessions.c.ended_at.is_(None),
        sessions.c.state.in_(sorted(SESSION.with_driver)),
        sessions.c.lease_until < clock(),
    )


def _recently_failed_streams(tx: Tx) -> int:
    """Count the streaming queries that have failed within the last hour."""
    return _count(
        tx,
        stream_queries,
        stream_queries.c.ended_at.is_not(None),
        stream_queries.c.ended_at > clock(-_FAILED_SECONDS),
        stream_queries.c.state == StreamState.FAILED,
    )


def _expired_results(tx: Tx) -> int:
    """Count the results that expired more than 10 minutes ago and are not deleted."""
    return _count(
        tx, results, results.c.gone_at.is_(None), results.c.expires_at < clock(-_DELETION_SECONDS)
    )


def _oldest_waiting_seconds(tx: Tx) -> float:
    """Return for how long the statement that waits longest has waited; 0 if none waits."""
    query = select(seconds_since(statements.c.waiting_since)).where(
        statements.c.ended_at.is_(None),
        # A bound parameter would not match the condition of the index.
        statements.c.state == literal_column(f"'{StatementState.WAITING}'"),
    )
    return _first(tx, query.order_by(statements.c.waiting_since))


def _oldest_operation_seconds(tx: Tx) -> float:
    """Return the age of the oldest operation that has not ended; 0 if there is none.

    Runs are operations, too, and may last for any time.
    """
    query = select(seconds_since(operations.c.created_at)).where(
        operations.c.ended_at.is_(None), operations.c.kind != RUN_KIND
    )
    return _first(tx, query.order_by(operations.c.created_at))


def _waiting_runs(tx: Tx) -> int:
    """Count the runs that wait for another run of their job."""
    return _count(tx, runs, runs.c.ended_at.is_(None), ~runs.c.has_turn, ~runs.c.awaits_conditions)


def _oldest_due_run_seconds(tx: Tx) -> float:
    """Return the lateness of the run that is due for the longest time; 0 if none is due."""
    query = select(seconds_since(func.min(runs.c.due_at))).where(
        runs.c.ended_at.is_(None),
        runs.c.state == RunState.DUE,
        # The runs of a backfill are due at once, and run in turns.
        runs.c.backfill_id.is_(None),
        ~runs.c.awaits_conditions,
    )
    return _first(tx, query)


def _oldest_due_schedule_seconds(tx: Tx) -> float:
    """Return for how long the schedule has been due that no node has fired; 0 if none is due."""
    query = select(seconds_since(job_schedules.c.next_at)).where(job_schedules.c.next_at <= clock())
    return _first(tx, query.order_by(job_schedules.c.next_at))


def _recently_failed_runs(tx: Tx) -> int:
    """Count the runs that have failed within the last hour."""
    # PostgreSQL reads no index up to a time that it computes for each row.
    start = read_clock(tx.connection) - timedelta(seconds=_FAILED_SECONDS)
    return _count(
        tx,
        runs,
        runs.c.ended_at.is_not(None),
        runs.c.ended_at > start,
        runs.c.state == RunState.FAILED,
    )


def _waiting_messages(tx: Tx) -> int:
    """Count the messages of the outbox that wait to be sent, or to be sent again."""
    return _count(tx, deliveries, deliveries.c.next_at.is_not(None))


def _oldest_message_seconds(tx: Tx) -> float:
    """Return the age of the oldest message of the outbox that waits; 0 if none waits."""
    query = select(seconds_since(deliveries.c.created_at)).where(deliveries.c.next_at.is_not(None))
    return _first(tx, query.order_by(deliveries.c.created_at))


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


class Measurement(NamedTuple):
    """A number that an operator watches: a metric without labels."""

    name: str
    documentation: str
    read: Callable[[Tx], float]


MEASUREMENTS = (
    Measurement(
        "headrace_oldest_waiting_seconds",
        "Time for which the statement that waits longest has waited; 0 if none waits.",
        _oldest_waiting_seconds,
    ),
    Measurement(
        "headrace_overdue_sessions",
        "Sessions whose driver has an expired lease. A node resolves them soon, unless the backend"
        " or the host of the driver does not answer.",
        _overdue_sessions,
    ),
    Measurement(
        "headrace_expired_nodes",
        "Nodes that have not ended and whose lease has expired.",
        _expired_nodes,
    ),
    Measurement(
        "headrace_recently_failed_streams",
        "Streaming queries that have failed, and are not retried, within the last hour.",
        _recently_failed_streams,
    ),
    Measurement(
        "headrace_expired_results",
        "Results that expired more than 10 minutes ago and are not deleted.",
        _expired_results,
    ),
    Measurement(
        "headrace_oldest_operation_seconds",
        "Age of the oldest operation of a node that has not ended, such as a deployment; 0 if there"
        " is none. Runs of jobs do not count.",
        _oldest_operation_seconds,
    ),
    Measurement(
        "headrace_waiting_runs",
        "Runs of batch jobs that wait for another run of their job.",
        _waiting_runs,
    ),
    Measurement(
        "headrace_oldest_due_run_seconds",
        "Lateness of the run of a batch job that has been due for the longest time and has not"
        " begun; 0 if none is due. Runs of backfills, and times that wait for conditions, do not"
        " count.",
        _oldest_due_run_seconds,
    ),
    Measurement(
        "headrace_oldest_due_schedule_seconds",
        "Time for which the schedule has been due that waits longest for a node that fires it; 0 if"
        " none is due.",
        _oldest_due_schedule_seconds,
    ),
    Measurement(
        "headrace_recently_failed_runs",
        "Runs of batch jobs that have failed, and are not retried, within the last hour.",
        _recently_failed_runs,
    ),
    Measurement(
        "headrace_waiting_messages",
        "Messages to webhooks, and OpenLineage events, that wait to be sent or to be sent again.",
        _waiting_messages,
    ),
    Measurement(
        "headrace_oldest_message_seconds",
        "Age of the oldest message that waits to be sent or to be sent again; 0 if none waits.",
        _oldest_message_seconds,
    ),
    Measurement(
        "headrace_unresolved_transactions",
        "Table transactions of lost drivers that other drivers could not complete or roll back"
        f" in {transactions.REPORTED_ATTEMPTS} attempts. They are retried every 5 minutes.",
        transactions.count_unresolved,
    ),
)
"""The metrics of the store without labels."""
