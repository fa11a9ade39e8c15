"""Connections: their specification, and their state after the last statement."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    case,
    delete,
    exists,
    insert,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from headrace.model.connection import Connection, ConnectionSpec, ConnectionState
from headrace.model.ids import new_id
from headrace.model.session import Snapshot
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.tables import connections as table
from headrace.store.tables import statements

_OPEN = table.c.ended_at.is_(None)
_SELECT = select(*(column for column in table.c if column.name != "snapshot"))


def insert_connection(
    tx: Tx, owner: str, protocol: str, spec: ConnectionSpec, *, connection_id: str | None = None
) -> Connection:
    """Insert a connection, and return it.

    Args:
        connection_id: Id that its client has. If there is a connection with it, that is returned.
    """
    connection_id = connection_id or new_id("cn")
    row = {"id": connection_id, "owner": owner, "protocol": protocol, "spec": spec}
    new = insert(table).values(created_at=clock(), last_used_at=clock(), **row)
    # Two calls of a client can be its first ones, at two nodes. After an error, PostgreSQL
    # continues a transaction from a savepoint only.
    with suppress(IntegrityError), tx.connection.begin_nested():
        tx.execute(new)
    connection = get(tx, connection_id)
    assert connection is not None
    return connection


def get(tx: Tx, connection_id: str) -> Connection | None:
    """Return a connection, or None if there is none."""
    row = tx.execute(_SELECT.where(table.c.id == connection_id)).mappings().one_or_none()
    return None if row is None else _to_connection(row)


def page_open(
    tx: Tx, owners: Collection[str] | None, *, before: str | None, limit: int
) -> list[Connection]:
    """Return open connections, newest first.

    Args:
        owners: Owners of the connections; None: all.
        before: Only connections older than this one.
        limit: Largest number of connections.
    """
    conditions: list[ColumnElement[bool]] = (
        [] if owners is None else [table.c.owner.in_(sorted(owners))]
    )
    if before is not None:
        conditions.append(table.c.id < before)
    query = _SELECT.where(_OPEN, *conditions).order_by(table.c.id.desc()).limit(limit)
    return [_to_connection(row) for row in tx.execute(query).mappings()]


def use(tx: Tx, connection_id: str) -> bool:
    """Record that a statement is submitted or has ended. Return False if the connection is closed.

    The transaction locks the session of the statement before, so that a submit and the end of an
    earlier statement do not wait for each other.
    """
    change = update(table).where(table.c.id == connection_id, _OPEN).values(last_used_at=clock())
    return bool(tx.execute(change).rowcount)


def close(tx: Tx, connection_id: str) -> bool:
    """Close a connection. Return False if it is closed already.

    Its waiting statements still run in its state, which `forget_closed` deletes later.
    """
    # The change must see the statements of the submits that had locked the row before.
    tx.execute(select(table.c.id).where(table.c.id == connection_id).with_for_update())
    change = update(table).where(table.c.id == connection_id, _OPEN).values(**_closed())
    return bool(tx.execute(change).rowcount)


def read_state(tx: Tx, connection_id: str) -> ConnectionState | None:
    """Return a connection for a driver, also if it is closed; None if there is none."""
    columns = (table.c.spec, table.c.snapshot, table.c.changed_by)
    query = select(*columns).where(table.c.id == connection_id)
    row = tx.execute(query).mappings().one_or_none()
    return None if row is None else ConnectionState(id=connection_id, **row)


def save_snapshot(tx: Tx, connection_id: str, snapshot: Snapshot, *, changed_by: str) -> None:
    """Replace the state of a connection.

    Args:
        changed_by: The statement that has reported it.

    The transaction must have locked a statement of it that the driver owns: this fences the write.
    """
    # A statement that waits still needs the state of a connection that is closed already.
    is_needed = or_(_OPEN, _has_live())
    change = update(table).where(table.c.id == connection_id, is_needed)
    tx.execute(change.values(snapshot=snapshot, changed_by=changed_by))


def close_idle(tx: Tx, idle_seconds: float, limit: int) -> int:
    """Close connections without a live statement that were not used for some seconds.

    Return their number, at most `limit`.
    """
    idle = (_OPEN, seconds_since(table.c.last_used_at) > idle_seconds, ~_has_live())
    ids = list(tx.execute(select(table.c.id).where(*idle).limit(limit)).scalars())
    # A connection may have been used since the read.
    change = update(table).where(table.c.id.in_(ids), *idle).values(**_closed())
    return tx.execute(change).rowcount


def forget_closed(tx: Tx, limit: int) -> int:
    """Delete the states of closed connections without a live statement; return their number."""
    old = (table.c.ended_at.is_not(None), table.c.snapshot.is_not(None), ~_has_live())
    ids = list(tx.execute(select(table.c.id).where(*old).limit(limit)).scalars())
    tx.execute(update(table).where(table.c.id.in_(ids)).values(snapshot=None))
    return len(ids)


def delete_ended(tx: Tx, seconds: float, limit: int) -> dict[str, int]:
    """Delete connections that were closed more than some seconds ago; return their number.

    Connections with a live statement stay.
    """
    old = (table.c.ended_at.is_not(None), seconds_since(table.c.ended_at) > seconds, ~_has_live())
    chosen = select(table.c.id).where(*old).limit(limit)
    ids = list(tx.execute(chosen).scalars())
    tx.execute(delete(table).where(table.c.id.in_(ids)))
    return {"connections": len(ids)}


def _closed() -> dict[str, Any]:
    """Return the columns that change when a connection is closed."""
    kept = case((_has_live(), table.c.snapshot), else_=null())
    return {"ended_at": clock(), "snapshot": kept}


def _has_live() -> ColumnElement[bool]:
    return exists().where(statements.c.connection_id == table.c.id, statements.c.ended_at.is_(None))


def _to_connection(row: RowMapping) -> Connection:
    return Connection(**row)
