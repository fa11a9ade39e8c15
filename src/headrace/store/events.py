"""The event log: one row for each change of state, written in the transaction that makes it.

Rows are read in the order (xid, id). On PostgreSQL `xid` is the writing transaction's, and readers
stay below the oldest one still at work, so that a late commit is never behind a reader. Writers of
SQLite take turns: there the order of ids is the order of commits.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Float, bindparam, insert, select, tuple_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from headrace.errors import InvalidRequest
from headrace.model.event import Event
from headrace.model.failure import Failure
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.notifications import EVENTS
from headrace.store.tables import events

_SELECT = select(events)


class _this_transaction(FunctionElement[int]):  # noqa: N801 - it stands for an SQL function
    """The number of the running transaction; 0 on SQLite."""

    type = BigInteger()
    inherit_cache = True


class _oldest_at_work(FunctionElement[int]):  # noqa: N801 - it stands for an SQL function
    """The lowest transaction number that may still commit; PostgreSQL's alone."""

    type = BigInteger()
    inherit_cache = True


@compiles(_this_transaction, "postgresql")
def _xid(_element: _this_transaction, _compiler: SQLCompiler, **_options: Any) -> str:
    return "(pg_current_xact_id()::text::bigint)"


@compiles(_oldest_at_work, "postgresql")
def _xmin(_element: _oldest_at_work, _compiler: SQLCompiler, **_options: Any) -> str:
    return "(pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"


@compiles(_this_transaction, "sqlite")
def _zero(_element: _this_transaction, _compiler: SQLCompiler, **_options: Any) -> str:
    return "0"


_APPEND = insert(events).values(
    xid=_this_transaction(),
    entity=bindparam("entity"),
    entity_id=bindparam("entity_id"),
    source=bindparam("source"),
    target=bindparam("target"),
    at=clock(bindparam("offset", type_=Float())),
    actor=bindparam("actor"),
    detail=bindparam("detail"),
)


def append(
    tx: Tx,
    entity: str,
    entity_id: str,
    source: str | None,
    target: str,
    *,
    actor: str,
    detail: dict[str, Any] | None = None,
    failure: Failure | None = None,
    seconds_ago: float = 0.0,
) -> None:
    """Record one change of state."""
    known = dict(detail or {})
    if failure is not None:
        known["failure"] = failure.model_dump(mode="json", exclude={"trace"}, exclude_none=True)
    tx.execute(
        _APPEND,
        {
            "entity": entity,
            "entity_id": entity_id,
            "source": source,
            "target": target,
            "actor": actor,
            "detail": known,
            "offset": -seconds_ago,
        },
    )
    tx.wake(EVENTS)


def read(
    tx: Tx,
    *,
    after: str | None,
    entity: str | None = None,
    entity_id: str | None = None,
    limit: int,
) -> list[Event]:
    """At most `limit` events after a cursor, oldest first; None reads from the beginning.

    Raises InvalidRequest when `after` is no cursor.
    """
    query = _SELECT.where(*_unread(tx, after))
    if entity is not None:
        query = query.where(events.c.entity == entity)
    if entity_id is not None:
        query = query.where(events.c.entity_id == entity_id)
    query = query.order_by(events.c.xid, events.c.id).limit(limit)
    return [_event(dict(row)) for row in tx.execute(query).mappings()]


def last(tx: Tx) -> str:
    """The cursor after which only later events come."""
    query = (
        select(events.c.xid, events.c.id)
        .where(*_unread(tx, None))
        .order_by(events.c.xid.desc(), events.c.id.desc())
        .limit(1)
    )
    row = tx.execute(query).one_or_none()
    return "0.0" if row is None else f"{row.xid}.{row.id}"


def _unread(tx: Tx, after: str | None) -> list[ColumnElement[bool]]:
    xid, number = (0, 0) if after is None else _position(after)
    if tx.dialect == "sqlite":
        # Told apart, because SQLite searches an index by the first column of a tuple alone.
        return [events.c.xid == _this_transaction(), events.c.id > number]
    position = tuple_(events.c.xid, events.c.id) > tuple_(xid, number)
    return [events.c.xid < _oldest_at_work(), position]


def _event(row: dict[str, Any]) -> Event:
    return Event(cursor=f"{row.pop('xid')}.{row.pop('id')}", **row)


def _position(cursor: str) -> tuple[int, int]:
    xid, _, number = cursor.partition(".")
    if not (xid.isascii() and xid.isdigit() and number.isascii() and number.isdigit()):
        raise InvalidRequest(f"{cursor!r} is no cursor of an event list.")
    if max(int(xid), int(number)) >= 2**63:
        raise InvalidRequest(f"{cursor!r} is no cursor of an event list.")
    return int(xid), int(number)
