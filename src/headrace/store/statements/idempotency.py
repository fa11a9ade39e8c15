"""Idempotency keys. For 24 hours, a key stands for the statement of the first submit with it."""

from __future__ import annotations

from sqlalchemy import delete, func, select, tuple_

from headrace.errors import IdempotencyConflict
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import idempotency
from headrace.store.upserts import insert_into

KEPT_SECONDS = 24 * 3600.0

_FRESH = idempotency.c.created_at > clock(-KEPT_SECONDS)


class IdempotencyKeyUsed(IdempotencyConflict):
    """A concurrent submit with this Idempotency-Key was stored first. Look up its statement."""


def find(tx: Tx, owner: str, key: str) -> tuple[str, str] | None:
    """Return the hash of the first request with this key, and the id of its statement.

    Within a write transaction, other transactions that look up the same key wait until it ends.
    Return None if the key is unknown or older than 24 hours.
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
    """Store a key with the hash of its request and the id of its statement.

    Raises:
        IdempotencyKeyUsed: Another submit has stored the key. The error rolls the transaction back.
    """
    row = insert_into(tx, idempotency).values(
        owner=owner, key=key, body_hash=body_hash, statement_id=statement_id, created_at=clock()
    )
    columns = [idempotency.c.body_hash, idempotency.c.statement_id, idempotency.c.created_at]
    upsert = row.on_conflict_do_update(
        index_elements=[idempotency.c.owner, idempotency.c.key],
        set_={column.name: row.excluded[column.name] for column in columns},
        where=~_FRESH,
    ).returning(idempotency.c.statement_id)
    if tx.execute(upsert).one_or_none() is None:
        raise IdempotencyKeyUsed(f"A concurrent submit used the Idempotency-Key {key!r} first.")


def delete_expired(tx: Tx, limit: int) -> int:
    """Delete at most `limit` keys that are older than 24 hours. Return their number."""
    key = tuple_(idempotency.c.owner, idempotency.c.key)
    # A submit that uses an expired key again has locked its row: the row is fresh after that.
    expired = (
        select(idempotency.c.owner, idempotency.c.key)
        .where(~_FRESH)
        .order_by(idempotency.c.created_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return tx.execute(delete(idempotency).where(key.in_(expired))).rowcount
