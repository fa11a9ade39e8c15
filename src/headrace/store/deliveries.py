"""The outbox: messages that wait to be sent, and what became of them.

A claim moves the time of the next attempt forward and counts the attempt. The time is the lease of
the node that sends the message, and the count is its fence: a node that lost its lease changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from sqlalchemy import RowMapping, Select, delete, select, union_all, update

from headrace.model.delivery import RECENT_MESSAGES, Delivery, NewDelivery, RecentDeliveries
from headrace.model.ids import new_id
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.records import record_to_columns
from headrace.store.tables import deliveries as table
from headrace.store.upserts import build_for_dialects

Row = TypeVar("Row", bound=tuple[Any, ...])
_SELECT = select(table)
_WAITS = table.c.next_at.is_not(None)
_OUTCOME = [
    table.c[name]
    for name in ("endpoint", "last_error", "attempted_at", "next_at", "sent_at", "failed_at")
]
_ENDPOINTS_AT_ONCE = 100
"""Endpoints of one query. SQLite combines at most 500 queries into one."""
_INSERT = build_for_dialects(
    table,
    lambda new: new.values(created_at=clock(), next_at=clock()).on_conflict_do_nothing(),
)


def insert_deliveries(tx: Tx, new: Sequence[NewDelivery]) -> None:
    """Insert messages that are due now, except those that the outbox has already."""
    rows = [{**record_to_columns(each), "id": new_id("dl"), "attempts": 0} for each in new]
    if rows:
        tx.execute(_INSERT[tx.dialect], rows)


def list_subjects(tx: Tx, kind: str, subjects: Collection[str]) -> set[str]:
    """Return those of some subjects about which there are messages of a kind."""
    query = select(table.c.subject).where(table.c.kind == kind, table.c.subject.in_(subjects))
    return set(tx.execute(query).scalars())


def has_waiting(tx: Tx) -> bool:
    """Return whether a message waits to be sent, now or later."""
    return tx.execute(select(table.c.id).where(_WAITS).limit(1)).first() is not None


def has_due(tx: Tx, *, without: Collection[str] = ()) -> bool:
    """Return whether a message is to be sent now.

    Args:
        without: Endpoints whose messages do not count.
    """
    query = _choose_due(select(table.c.id), without)
    return tx.execute(query.limit(1)).first() is not None


def claim_due(tx: Tx, seconds: float, limit: int, *, without: Collection[str]) -> list[Delivery]:
    """Claim messages that are due, for `seconds`. Return them, the longest due first.

    Args:
        without: Endpoints whose messages are not claimed.
    """
    query = _choose_due(_SELECT, without).order_by(table.c.next_at).limit(limit)
    return [
        claimed
        for each in _fetch(tx, query.with_for_update(skip_locked=True))
        if (claimed := _claim(tx, each, seconds)) is not None
    ]


def _choose_due(query: Select[Row], without: Collection[str]) -> Select[Row]:
    query = query.where(_WAITS, table.c.next_at <= clock())
    return query.where(table.c.endpoint.not_in(sorted(without))) if without else query


def _claim(tx: Tx, delivery: Delivery, seconds: float) -> Delivery | None:
    change = update(table).where(table.c.id == delivery.id, table.c.attempts == delivery.attempts)
    claimed = change.values(attempts=delivery.attempts + 1, next_at=clock(seconds))
    row = tx.execute(claimed.returning(table)).mappings().one_or_none()
    return None if row is None else Delivery(**row)


def record_sent(tx: Tx, delivery: Delivery, *, status: int | None) -> None:
    """Record that a claimed message has arrived.

    Args:
        status: HTTP status; None: it was written to a file.
    """
    _record(tx, delivery, status, sent_at=clock(), next_at=None, last_error=None)


def postpone(tx: Tx, delivery: Delivery, seconds: float, *, error: str, status: int | None) -> None:
    """Let a claimed message be sent again after `seconds`.

    Args:
        status: HTTP status; None: there was no response.
    """
    _record(tx, delivery, status, next_at=clock(seconds), last_error=error)


def record_failed(tx: Tx, delivery: Delivery, *, error: str, status: int | None) -> None:
    """Record that a claimed message is not sent any more.

    Args:
        status: HTTP status; None: there was no response.
    """
    _record(tx, delivery, status, failed_at=clock(), next_at=None, last_error=error)


def _record(tx: Tx, delivery: Delivery, status: int | None, **values: object) -> None:
    values |= {"last_status": status, "attempted_at": clock()}
    is_own = (table.c.id == delivery.id) & (table.c.attempts == delivery.attempts) & _WAITS
    tx.execute(update(table).where(is_own).values(values))


def page(tx: Tx, endpoint: str, *, before: str | None, limit: int) -> list[Delivery]:
    """Return at most `limit` messages to an endpoint with ids below `before`, the newest first."""
    query = _SELECT.where(table.c.endpoint == endpoint)
    if before is not None:
        query = query.where(table.c.id < before)
    return _fetch(tx, query.order_by(table.c.id.desc()).limit(limit))


def read_recent(tx: Tx, endpoints: Sequence[str]) -> dict[str, RecentDeliveries]:
    """Return what became of the last messages to each of these endpoints."""
    found: dict[str, list[RowMapping]] = {each: [] for each in endpoints}
    for start in range(0, len(endpoints), _ENDPOINTS_AT_ONCE):
        parts = [_choose_recent(each) for each in endpoints[start : start + _ENDPOINTS_AT_ONCE]]
        for row in tx.execute(union_all(*parts)).mappings():
            found[row["endpoint"]].append(row)
    return {endpoint: _count_recent(rows) for endpoint, rows in found.items()}


def _choose_recent(endpoint: str) -> Select[Any]:
    newest = select(*_OUTCOME).where(table.c.endpoint == endpoint)
    return select(newest.order_by(table.c.id.desc()).limit(RECENT_MESSAGES).subquery())


def _count_recent(rows: Sequence[RowMapping]) -> RecentDeliveries:
    errors = [row for row in rows if row["sent_at"] is None and row["attempted_at"] is not None]
    last_error = max(errors, key=lambda row: row["attempted_at"], default=None)
    return RecentDeliveries(
        waiting=sum(row["next_at"] is not None for row in rows),
        failed=sum(row["failed_at"] is not None for row in rows),
        last_sent_at=max((row["sent_at"] for row in rows if row["sent_at"]), default=None),
        last_failure_at=None if last_error is None else last_error["attempted_at"],
        last_error=None if last_error is None else last_error["last_error"],
    )


def delete_of_endpoint(tx: Tx, endpoint: str, limit: int) -> int:
    """Delete at most `limit` messages to an endpoint. Return their number."""
    return _delete(tx, select(table.c.id).where(table.c.endpoint == endpoint), limit)


def delete_old(tx: Tx, seconds: float, limit: int) -> int:
    """Delete at most `limit` messages that were made more than `seconds` ago.

    Return their number.
    """
    query = select(table.c.id).where(table.c.created_at < clock(-seconds))
    return _delete(tx, query.order_by(table.c.created_at), limit)


def _delete(tx: Tx, query: Select[Any], limit: int) -> int:
    ids = list(tx.execute(query.limit(limit).with_for_update(skip_locked=True)).scalars())
    if ids:
        tx.execute(delete(table).where(table.c.id.in_(ids)))
    return len(ids)


def _fetch(tx: Tx, query: Select[Any]) -> list[Delivery]:
    return [Delivery(**row) for row in tx.execute(query).mappings()]
