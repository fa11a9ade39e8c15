"""Nodes: registrations and leases.

Each start of a node is a registration, and the newest registration counts. A node keeps its id over
restarts. A registration that is `gone` stays `gone`: the next start creates a new registration and
ends the previous one. So does a node that returns after its registration has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, exists, func, insert, or_, select, text, update
from sqlalchemy.exc import IntegrityError

from headrace.model.lifecycle import NODE, STATEMENT, NodeState
from headrace.model.node import NodeRecord
from headrace.model.session import DriverLease
from headrace.model.statement import JOB_WRITE
from headrace.store import events
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.streams.stream_queries import HAS_LIVE_QUERY
from headrace.store.tables import backend_budgets as table
from headrace.store.tables import nodes, sessions, statements, transactions
from headrace.store.transitions import Transitions

_TRANSITIONS = Transitions(NODE, nodes)
_INTERNAL = {"registration", "event_process"}
_LOCK = text(f"LOCK TABLE {nodes.name} IN SHARE ROW EXCLUSIVE MODE")
_LIVE = nodes.c.ended_at.is_(None)
_SELECT = select(*(column for column in nodes.c if column.name not in _INTERNAL))


def lock_registrations(tx: Tx) -> None:
    """Let no other node register until the transaction ends, so that each one sees the others."""
    if tx.dialect == "postgresql":
        # SQLite has one writer at a time.
        tx.execute(_LOCK)


def register(
    tx: Tx,
    node_id: str,
    *,
    address: str,
    version: str,
    seconds: float,
    profiles: Sequence[str] = (),
    backends: Sequence[str] = (),
    host: dict[str, Any] | None = None,
    link_version: int = 1,
) -> int:
    """Register a node that has started, with a lease. Return the number of the registration.

    Args:
        profiles: Profiles whose drivers the node can start.
        backends: Backends that the node can call.
        host: Identity of its host.
        link_version: Version of the messages that it exchanges with drivers.
    """
    transition(tx, node_id, NodeState.GONE, actor=node_id, detail={"reason": "restarted"})
    row = {
        "id": node_id,
        "address": address,
        "version": version,
        "state": NODE.initial,
        "profiles": list(profiles),
        "backends": list(backends),
        "host": host,
        "link_version": link_version,
    }
    query = (
        nodes.insert()
        .values(started_at=clock(), present_since=clock(), lease_until=clock(seconds))
        .returning(nodes.c.registration)
    )
    registration: int = tx.execute(query, row).scalar_one()
    events.append_creation(tx, NODE, node_id, actor=node_id)
    return registration


def find_older(tx: Tx, link_version: int) -> str | None:
    """Return a node that has not ended and exchanges older messages with drivers, or None."""
    is_older = (nodes.c.ended_at.is_(None), nodes.c.link_version < link_version)
    node_id: str | None = tx.execute(select(nodes.c.id).where(*is_older).limit(1)).scalar()
    return node_id


def renew(
    tx: Tx, node_id: str, seconds: float, *, event_process: str | None = None
) -> NodeState | None:
    """Renew a node's lease, and return the state of the node; None: it is gone.

    If the last renewal was more than half a lease ago, the node was away: it is present from now.

    Args:
        event_process: Process of the node if it streams events, and needs wake-ups for them.
    """
    renewal = update(nodes).where(nodes.c.id == node_id, _LIVE)
    was_away = nodes.c.lease_until < clock(seconds / 2)
    present_since = case((was_away, clock()), else_=nodes.c.present_since)
    values = {
        "lease_until": clock(seconds),
        "present_since": present_since,
        "event_process": event_process,
    }
    state: NodeState | None = tx.execute(
        renewal.values(values).returning(nodes.c.state)
    ).scalar_one_or_none()
    return state


def others_stream_events(tx: Tx, process: str) -> bool:
    """Return whether other processes stream events."""
    query = select(exists().where(_LIVE, nodes.c.event_process != process))
    found: bool = tx.execute(query).scalar_one()
    return found


def mark_return(tx: Tx, node_id: str, seconds: float) -> None:
    """Record that a node was away and is present from now, with a new lease."""
    returned = update(nodes).where(nodes.c.id == node_id, _LIVE)
    tx.execute(returned.values(present_since=clock(), lease_until=clock(seconds)))


def may_judge(
    node_id: str, seconds: float, *, patience: float | None = None
) -> ColumnElement[bool]:
    """Return the condition under which a node may judge the expired leases of drivers.

    The node must have been present for a whole lease, because drivers could not renew their leases
    at a node that was away. Another node that was present all the time need not wait. The node must
    also have renewed its own lease within the last half of a lease. Otherwise it may have been
    frozen just now, between its decision and this transaction.

    Args:
        seconds: Length of a lease.
        patience: Time for which the node must have been present; None: a lease.
    """
    patience = seconds if patience is None else patience
    return exists().where(
        nodes.c.id == node_id,
        _LIVE,
        nodes.c.present_since < clock(-patience),
        nodes.c.lease_until > clock(seconds / 2),
    )


def is_present(tx: Tx, node_id: str, seconds: float, *, patience: float) -> bool:
    """Return whether a node has been present for `patience` seconds, with leases of `seconds`."""
    query = select(may_judge(node_id, seconds, patience=patience))
    return bool(tx.execute(query).scalar_one())


def offered_profiles(tx: Tx, seconds: float) -> set[str]:
    """Return the profiles whose drivers some node can start.

    A node whose lease ended less than `seconds` ago counts: it may be restarting.
    """
    recent = nodes.c.lease_until > clock(-seconds)
    rows = tx.execute(select(nodes.c.profiles).where(recent)).scalars()
    return {profile for profiles in rows for profile in profiles}


def transition(
    tx: Tx,
    node_id: str,
    target: NodeState,
    *,
    actor: str,
    detail: dict[str, str] | None = None,
) -> bool:
    """Change the state of a node, if the lifecycle allows it. Return whether it was changed."""
    query = select(nodes.c.registration, nodes.c.state).where(nodes.c.id == node_id, _LIVE)
    node = tx.execute(query.with_for_update()).one_or_none()
    if node is None:
        return False
    registration = nodes.c.registration == node.registration
    return _TRANSITIONS.apply(
        tx, node_id, node.state, target, registration, actor=actor, detail=detail
    )


def end_expired(tx: Tx, actor: str, seconds: float, *, patience: float) -> list[str]:
    """End the registrations of nodes whose lease expired more than `patience` seconds ago.

    The actor must have been present for as long: after an outage of the store, the other nodes have
    this time to return.

    Args:
        actor: Id of the node that ends the registrations.
        seconds: Length of a lease.

    Returns:
        Ids of the nodes that are gone now.
    """
    if not is_present(tx, actor, seconds, patience=patience):
        return []
    query = select(nodes.c.id).where(
        _LIVE, nodes.c.id != actor, nodes.c.lease_until < clock(-patience)
    )
    # With the lock, no node renews its lease before its registration has ended.
    expired = tx.execute(query.order_by(nodes.c.id).with_for_update(skip_locked=True)).scalars()
    detail = {"reason": "its lease expired"}
    return [
        node_id
        for node_id in expired.all()
        if transition(tx, node_id, NodeState.GONE, actor=actor, detail=detail)
    ]


def page(tx: Tx) -> list[NodeRecord]:
    """Return the newest registration of every node, in order of id."""
    newest = select(func.max(nodes.c.registration)).group_by(nodes.c.id)
    query = _SELECT.where(nodes.c.registration.in_(newest)).order_by(nodes.c.id)
    return [NodeRecord(**row) for row in tx.execute(query).mappings()]


def has_lease(node_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a node, given by a column, has a valid lease."""
    return exists().where(nodes.c.id == node_id, _LIVE, nodes.c.lease_until > clock())


def has_served_since(
    node_id: ColumnElement[str], since: ColumnElement[datetime]
) -> ColumnElement[bool]:
    """Return the condition that a node has a valid lease, and has not started after a time."""
    return exists().where(
        nodes.c.id == node_id,
        _LIVE,
        nodes.c.lease_until > clock(),
        nodes.c.started_at <= since,
    )


def is_confirmed_gone(
    node_id: ColumnElement[str], since: ColumnElement[datetime]
) -> ColumnElement[bool]:
    """Return the condition that an operator has confirmed the end of a node after a time."""
    return exists().where(nodes.c.id == node_id, nodes.c.confirmed_gone_at > since)


def page_live(tx: Tx) -> list[NodeRecord]:
    """Return the nodes that have a valid lease."""
    query = _SELECT.where(_LIVE, nodes.c.lease_until > clock()).order_by(nodes.c.id)
    return [NodeRecord(**row) for row in tx.execute(query).mappings()]


def is_live(tx: Tx, node_id: str) -> bool:
    """Return whether a node has a valid lease."""
    query = select(nodes.c.id).where(nodes.c.id == node_id, _LIVE, nodes.c.lease_until > clock())
    return tx.execute(query).first() is not None


def get(tx: Tx, node_id: str) -> NodeRecord | None:
    """Return the newest registration of a node, or None if there is none."""
    query = _SELECT.where(nodes.c.id == node_id).order_by(nodes.c.registration.desc()).limit(1)
    row = tx.execute(query).mappings().first()
    return None if row is None else NodeRecord(**row)


def confirm_gone(tx: Tx, node_id: str, *, actor: str) -> bool:
    """Record that an operator has confirmed the end of a node whose lease has expired.

    Return whether the lease has expired.
    """
    newest = select(func.max(nodes.c.registration)).where(nodes.c.id == node_id)
    confirmed = update(nodes).where(
        nodes.c.registration == newest.scalar_subquery(),
        or_(nodes.c.ended_at.is_not(None), nodes.c.lease_until < clock()),
    )
    if not tx.execute(confirmed.values(confirmed_gone_at=clock())).rowcount:
        return False
    detail = {"reason": "an operator has confirmed its end"}
    transition(tx, node_id, NodeState.GONE, actor=actor, detail=detail)
    return True


def addresses(tx: Tx) -> list[str]:
    """Return the addresses of the nodes that are `up` and have a valid lease, newest first."""
    query = select(nodes.c.registration, nodes.c.address).where(
        _LIVE, nodes.c.state == NodeState.UP, nodes.c.lease_until > clock()
    )
    # With an ORDER BY, SQLite would read all ended registrations.
    live = sorted(tx.execute(query), key=lambda node: node.registration, reverse=True)
    return [node.address for node in live]


def may_continue_without(
    tx: Tx, lost: DriverLease, *, orphan_seconds: float, end_seconds: float
) -> bool:
    """Return whether a session may continue although no backend confirms the end of its driver.

    Args:
        lost: The driver, fenced or not.
        orphan_seconds: Time without an accepted renewal after which a driver ends itself.
        end_seconds: Longest time that it takes to do so.
    """
    has_ended_itself = sessions.c.last_update_time < clock(-orphan_seconds - end_seconds)
    writing_statement = exists().where(
        statements.c.session_id == sessions.c.id,
        statements.c.state.in_(sorted(STATEMENT.in_flight)),
        or_(statements.c.is_query.is_(False), statements.c.command == JOB_WRITE),
    )
    # A driver also works on transactions of other sessions, which it recovers.
    open_transaction = exists().where(
        transactions.c.session_id == sessions.c.id,
        transactions.c.epoch == lost.epoch,
        transactions.c.ended_at.is_(None),
    )
    confirmed = is_confirmed_gone(sessions.c.launched_by, sessions.c.last_update_time)
    row = tx.execute(
        select(
            has_ended_itself.label("ended"),
            sessions.c.streams,
            HAS_LIVE_QUERY.label("has_query"),
            sessions.c.fenced_driver,
            writing_statement.label("writes"),
            open_transaction.label("publishes"),
            confirmed.label("confirmed"),
        ).where(sessions.c.id == lost.session_id)
    ).one_or_none()
    if row is None or row.ended or row.confirmed:
        return True
    # Fencing a driver resets the number of streams in its session.
    streams = row.streams if row.fenced_driver is None else row.fenced_driver.streams
    return not (row.writes or row.publishes or streams or row.has_query)


_BURST_SECONDS = 1.0
"""Slots of this time can be taken at once after a pause."""


def take_backend_slot(tx: Tx, backend: str, per_second: float) -> float:
    """Take the next slot of a backend, and return the seconds until it begins.

    Args:
        per_second: Number of slots in a second.
    """
    query = select(seconds_since(table.c.next_at)).where(table.c.backend == backend)
    age = tx.execute(query.with_for_update()).scalar()
    begins_in = -_BURST_SECONDS if age is None else max(-float(age), -_BURST_SECONDS)
    next_at = clock(begins_in + 1 / per_second)
    if age is not None:
        tx.execute(update(table).where(table.c.backend == backend).values(next_at=next_at))
        return max(0.0, begins_in)
    try:
        # After an error, PostgreSQL continues a transaction from a savepoint only.
        with tx.connection.begin_nested():
            tx.execute(insert(table).values(backend=backend, next_at=next_at))
    except IntegrityError:
        # Another node has taken the first slot just now.
        return take_backend_slot(tx, backend, per_second)
    return 0.0
