"""Idempotency keys: which statement a repeated submit stands for, for 24 hours."""

from __future__ import annotations

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from headrace.errors import IdempotencyConflict
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import idempotency

KEPT_SECONDS = 24 * 3600.0

_FRESH = idempotency.c.created_at > clock(-KEPT_SECONDS)


class IdempotencyKeyUsed(IdempotencyConflict):
    """Another submit with this Idempotency-Key has just been stored: look it up."""


def find(tx: Tx, owner: str, key: str) -> tuple[str, str] | None:
    """The hash of the first request with this key, and its statement.

    Within a write transaction, others that look for the same key wait until it ends.
    """
    if tx.dialect == "postgresql":
        lock = func.hashtextextended(f"{owner}\n{key}", 0)
        tx.execute(select(func.pg_advisory_xact_lock(lock)))
    query = select(idempotency.c.body_hash, idempotency.c.statement_id).where(
        idempotency.c.owner == owner, idempotency.c.key == key, _FRESH
    )
    row = tx.execute(query).one_or_none()
    return None if row is None else (row.body_hash, row.statement_id)


def remember(tx: Tx, owner: str, key: str, body_hash: str, statement_id: str) -> None:
    """Keep a key. Raises KeyTaken, which undoes the transaction, when another was quicker."""
    insert = postgresql.insert if tx.dialect == "postgresql" else sqlite.insert
    row = insert(idempotency).values(
        owner=owner, key=key, body_hash=body_hash, statement_id=statement_id, created_at=clock()
    )
    columns = [idempotency.c.body_hash, idempotency.c.statement_id, idempotency.c.created_at]
    kept = row.on_conflict_do_update(
        index_elements=[idempotency.c.owner, idempotency.c.key],
        set_={column.name: row.excluded[column.name] for column in columns},
        where=~_FRESH,
    ).returning(idempotency.c.statement_id)
    if tx.execute(kept).one_or_none() is None:
        raise IdempotencyKeyUsed(f"Another submit with the Idempotency-Key {key!r} was quicker.")


def forget_expired(tx: Tx) -> int:
    """Drop keys that are too old to be found; returns how many."""
    return tx.execute(delete(idempotency).where(~_FRESH)).rowcount
