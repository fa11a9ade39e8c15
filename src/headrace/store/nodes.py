"""Nodes in the store. Each start of a node is a registration; the newest one counts.

A node keeps its id over restarts, and `gone` stays `gone`: a node that comes back is registered
anew, and what is left of its former registration ends.
"""

from __future__ import annotations

from sqlalchemy import func, select, update

from headrace.model.lifecycle import NODE, NodeState
from headrace.model.node import NodeRecord
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import nodes

_ENTITY = "node"
_LIVE = nodes.c.ended_at.is_(None)
_SELECT = select(*(column for column in nodes.c if column.name != "registration"))


def register(tx: Tx, node_id: str, *, address: str, version: str, seconds: float) -> int:
    """Enter a node that has started, with a lease; returns the number of the registration."""
    transition(tx, node_id, NodeState.GONE, actor=node_id, detail={"reason": "started anew"})
    row = {
        "id": node_id,
        "address": address,
        "version": version,
        "state": NODE.initial,
    }
    entered = (
        nodes.insert()
        .values(started_at=clock(), lease_until=clock(seconds))
        .returning(nodes.c.registration)
    )
    registration: int = tx.execute(entered, row).scalar_one()
    events.append(tx, _ENTITY, node_id, None, NODE.initial, actor=node_id)
    return registration


def renew(tx: Tx, node_id: str, seconds: float, *, registration: int | None = None) -> bool:
    """Prolong a node's lease; False when it is gone, or was registered anew since."""
    prolonged = update(nodes).where(nodes.c.id == node_id, _LIVE)
    if registration is not None:
        prolonged = prolonged.where(nodes.c.registration == registration)
    return tx.execute(prolonged.values(lease_until=clock(seconds))).rowcount > 0


def transition(
    tx: Tx,
    node_id: str,
    target: NodeState,
    *,
    actor: str,
    detail: dict[str, str] | None = None,
) -> bool:
    """Change the state, when the lifecycle allows it. Returns whether it landed."""
    query = select(nodes.c.registration, nodes.c.state).where(nodes.c.id == node_id, _LIVE)
    held = tx.execute(query.with_for_update()).one_or_none()
    if held is None or not NODE.allows(held.state, target):
        return False
    same = update(nodes).where(
        nodes.c.registration == held.registration, nodes.c.state == held.state
    )
    ended = {"ended_at": clock()} if target in NODE.terminal else {}
    applied = tx.execute(same.values(state=target, **ended)).rowcount > 0
    if applied:
        events.append(tx, _ENTITY, node_id, held.state, target, actor=actor, detail=detail)
    return applied


def page(tx: Tx) -> list[NodeRecord]:
    """Every node as it was last registered, in order of id."""
    newest = select(func.max(nodes.c.registration)).group_by(nodes.c.id)
    query = _SELECT.where(nodes.c.registration.in_(newest)).order_by(nodes.c.id)
    return [NodeRecord(**row) for row in tx.execute(query).mappings()]


def addresses(tx: Tx) -> list[str]:
    """Where the nodes listen that are up and have a lease, newest first."""
    query = select(nodes.c.address).where(
        _LIVE, nodes.c.state == NodeState.UP, nodes.c.lease_until > clock()
    )
    return list(tx.execute(query.order_by(nodes.c.registration.desc())).scalars())
