"""Records of the audit. They are inserted, read, and deleted when they are old, never changed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select

from headrace.model.audit import AuditAction, AuditRecord, NewAuditRecord
from headrace.model.ids import new_id
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.records import record_to_columns
from headrace.store.tables import audit as table


def append(tx: Tx, new: Sequence[NewAuditRecord], *, node_id: str) -> list[AuditRecord]:
    """Insert records, and return them in this order."""
    rows = [{**record_to_columns(each), "id": new_id("au"), "node_id": node_id} for each in new]
    tx.execute(insert(table).values(at=clock()), rows)
    ids = [row["id"] for row in rows]
    found = tx.execute(select(table).where(table.c.id.in_(ids))).mappings()
    by_id = {row["id"]: AuditRecord(**row) for row in found}
    return [by_id[id_] for id_ in ids]


def page(
    tx: Tx,
    *,
    action: AuditAction | None,
    actor: str | None,
    target: str | None,
    before: str | None,
    limit: int,
) -> list[AuditRecord]:
    """Return at most `limit` records with ids below `before`, newest first.

    Args:
        action: Only records about this action; None: about all. The same for actor and target.
    """
    query = select(table).order_by(table.c.id.desc()).limit(limit)
    for column, value in (
        (table.c.action, action),
        (table.c.actor, actor),
        (table.c.target, target),
    ):
        if value is not None:
            query = query.where(column == value)
    if before is not None:
        query = query.where(table.c.id < before)
    return [AuditRecord(**row) for row in tx.execute(query).mappings()]


def delete_old(tx: Tx, seconds: float, limit: int) -> int:
    """Delete at most `limit` records that are older than `seconds`. Return their number."""
    old = select(table.c.id).where(table.c.at < clock(-seconds)).order_by(table.c.at).limit(limit)
    return tx.execute(delete(table).where(table.c.id.in_(old))).rowcount
