"""The outbox: messages that wait to be sent, and what became of them.

A claim moves the time of the next attempt forward and counts the attempt. The time is the lease of
the node that sends the message, and the count is its fence: a node that lost its lease changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from sqlalchemy import Select, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from headrace.model.delivery import Delivery, NewDelivery
from headrace.model.ids import new_id
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.records import record_to_columns
from headrace.store.tables import deliveries as table

Row = TypeVar("Row", bound=tuple[Any, ...])
_SELECT = select(table)
_WAITS = table.c.next_at.is_not(None)
_INSERT = {
    name: insert(table).values(created_at=clock(), next_at=clock()).on_conflict_do_nothing()
    for name, insert in (("postgresql", postgresql.insert), ("sqlite", sqlite.insert))
}


def insert_deliveries(tx: Tx, new: Sequence[NewDelivery]) -> None:
    """Insert messages that are due now, except those that the outbox has already."""
    rows = [{**record_to_columns(each), "id": new_id("dl"), "attempts": 0} for each in new]
    if rows:
        tx.execute(_INSERT[tx.dialect], rows)


def list_subjects(tx: Tx, kind: str, subjects: Collection[str]) -> set[str]:
    """Return those of some subjects about which there are messages of a kind."""
    query = select(table.c.subject).where(table.c.kind == kind, table.c.subject.in_(subjects))
    return set(tx.execute(query).scalars())


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


def record_sent(tx: Tx, delivery: Delivery) -> None:
    """Record that a claimed message has arrived."""
    _change(tx, delivery, sent_at=clock(), next_at=None, last_error=None)


def postpone(tx: Tx, delivery: Delivery, seconds: float, *, error: str) -> None:
    """Let a claimed message be sent again after `seconds`."""
    _change(tx, delivery, next_at=clock(seconds), last_error=error)


def record_failed(tx: Tx, delivery: Delivery, *, error: str) -> None:
    """Record that a claimed message is not sent any more."""
    _change(tx, delivery, failed_at=clock(), next_at=None, last_error=error)


def _change(tx: Tx, delivery: Delivery, **values: object) -> None:
    is_own = (table.c.id == delivery.id) & (table.c.attempts == delivery.attempts) & _WAITS
    tx.execute(update(table).where(is_own).values(values))


def page(tx: Tx, endpoint: str, *, before: str | None, limit: int) -> list[Delivery]:
    """Return at most `limit` messages to an endpoint with ids below `before`, the newest first."""
    query = _SELECT.where(table.c.endpoint == endpoint)
    if before is not None:
        query = query.where(table.c.id < before)
    return _fetch(tx, query.order_by(table.c.id.desc()).limit(limit))


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
