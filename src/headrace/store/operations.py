"""Operations: long work of nodes, claimed by compare-and-set, adopted when a node is lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, and_, insert, or_, select, update

from headrace.model.deployment import OperationLease
from headrace.model.ids import new_id
from headrace.model.lifecycle import OPERATION, OperationState
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import OPERATIONS
from headrace.store.tables import operations
from headrace.store.transitions import Transitions

_TRANSITIONS = Transitions(OPERATION, operations)
_LIVE = operations.c.ended_at.is_(None)
_INSERT = insert(operations).values(created_at=clock())


def insert_operation(tx: Tx, kind: str, ref: str, *, actor: str) -> str:
    """Insert an operation that any node may claim. Return its id.

    Args:
        kind: Name of the code that runs it.
        ref: Id of the row that it works on.
    """
    [operation_id] = insert_operations(tx, kind, [ref], actor=actor)
    return operation_id


def insert_operations(tx: Tx, kind: str, refs: Sequence[str], *, actor: str) -> list[str]:
    """Insert operations of one kind, as `insert_operation` does. Return their ids."""
    if not refs:
        return []
    ids = [new_id("op") for _ref in refs]
    rows = [
        {"id": operation_id, "kind": kind, "ref": ref, "state": OPERATION.initial}
        for operation_id, ref in zip(ids, refs, strict=True)
    ]
    tx.execute(_INSERT, rows)
    details = {row["id"]: {"kind": kind, "ref": row["ref"]} for row in rows}
    events.append_creations(tx, OPERATION, details, actor=actor)
    tx.wake(OPERATIONS)
    return ids


def claim(
    tx: Tx, node_id: str, seconds: float, limit: int, kinds: Collection[str]
) -> list[tuple[OperationLease, str, str]]:
    """Claim at most `limit` operations of these kinds that no node works on.

    Returns:
        For each: the lease, the kind, and the id of the row to work on.
    """
    query = select(operations).where(_is_free(kinds)).order_by(operations.c.id).limit(limit)
    claimed = []
    for row in tx.execute(query.with_for_update(skip_locked=True)).mappings().all():
        lease = OperationLease(id=row["id"], node_id=node_id, epoch=row["epoch"] + 1)
        _TRANSITIONS.apply(
            tx,
            lease.id,
            row["state"],
            OperationState.CLAIMED,
            actor=node_id,
            values={"node_id": node_id, "epoch": lease.epoch, "lease_until": clock(seconds)},
            detail={"node": node_id, "epoch": lease.epoch},
            is_locked=True,
        )
        claimed.append((lease, row["kind"], row["ref"]))
    return claimed


def has_free(tx: Tx, kinds: Collection[str]) -> bool:
    """Return whether `claim` would claim an operation."""
    query = select(operations.c.id).where(_is_free(kinds)).limit(1)
    return tx.execute(query).first() is not None


def renew_all(tx: Tx, leases: Collection[OperationLease], seconds: float) -> set[OperationLease]:
    """Renew the leases of a node. Return those that it still holds."""
    held = set()
    for lease in leases:
        if renew(tx, lease, seconds):
            held.add(lease)
    return held


def renew(tx: Tx, lease: OperationLease, seconds: float) -> bool:
    """Lock an operation and renew its lease. Return False if another node has adopted it."""
    change = update(operations).where(
        operations.c.id == lease.id,
        operations.c.node_id == lease.node_id,
        operations.c.epoch == lease.epoch,
        _LIVE,
    )
    return tx.execute(change.values(lease_until=clock(seconds))).rowcount > 0


def release(tx: Tx, node_id: str) -> None:
    """Give up the operations of a node that stops, so that another node adopts them at once."""
    change = update(operations).where(operations.c.node_id == node_id, _LIVE)
    tx.execute(change.values(lease_until=clock()))


def finish(tx: Tx, lease: OperationLease) -> None:
    """End an operation. The transaction has renewed its lease."""
    source, target, values = OperationState.CLAIMED, OperationState.DONE, {"lease_until": None}
    _TRANSITIONS.apply(
        tx, lease.id, source, target, actor=lease.node_id, values=values, is_locked=True
    )


def _is_free(kinds: Collection[str]) -> ColumnElement[bool]:
    has_no_node = or_(operations.c.lease_until.is_(None), operations.c.lease_until < clock())
    return and_(_LIVE, operations.c.kind.in_(kinds), has_no_node)
