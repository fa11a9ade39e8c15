"""The event log: one row for each change of state, written in the transaction that makes it.

Readers receive events in the order (xid, id). On PostgreSQL, `xid` is the number of the writing
transaction, and readers stay below the oldest transaction that still runs: an event that commits
late never lies behind a reader's cursor. On SQLite, writers take turns, so the order of ids is the
order of commits.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Float,
    RowMapping,
    bindparam,
    insert,
    select,
    tuple_,
)
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


class _current_xid(FunctionElement[int]):  # noqa: N801 - it stands for an SQL function
    """The number of the current transaction; 0 on SQLite."""

    type = BigInteger()
    inherit_cache = True


class _oldest_running_xid(FunctionElement[int]):  # noqa: N801 - it stands for an SQL function
    """The lowest number of a transaction that may still commit; PostgreSQL only."""

    type = BigInteger()
    inherit_cache = True


@compiles(_current_xid, "postgresql")
def _compile_current_xid(_element: _current_xid, _compiler: SQLCompiler, **_options: Any) -> str:
    return "(pg_current_xact_id()::text::bigint)"


@compiles(_oldest_running_xid, "postgresql")
def _compile_oldest_xid(
    _element: _oldest_running_xid, _compiler: SQLCompiler, **_options: Any
) -> str:
    return "(pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"


@compiles(_current_xid, "sqlite")
def _compile_zero(_element: _current_xid, _compiler: SQLCompiler, **_options: Any) -> str:
    return "0"


_APPEND = insert(events).values(
    xid=_current_xid(),
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
    """Append the event of a change of state.

    Args:
        failure: A failure to add to the detail, without its stack trace.
        seconds_ago: Time since the change; the event is dated back by this time.
    """
    full_detail = dict(detail or {})
    if failure is not None:
        full_detail["failure"] = failure.model_dump(
            mode="json", exclude={"trace"}, exclude_none=True
        )
    tx.execute(
        _APPEND,
        {
            "entity": entity,
            "entity_id": entity_id,
            "source": source,
            "target": target,
            "actor": actor,
            "detail": full_detail,
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
    """Return at most `limit` events after a cursor, oldest first.

    Args:
        after: Cursor of the last event that the caller has; None: from the first event on.

    Raises:
        InvalidRequest: `after` is not a cursor.
    """
    query = _SELECT.where(*_after(tx, after))
    if entity is not None:
        query = query.where(events.c.entity == entity)
    if entity_id is not None:
        query = query.where(events.c.entity_id == entity_id)
    query = query.order_by(events.c.xid, events.c.id).limit(limit)
    return [_row_to_event(row) for row in tx.execute(query).mappings()]


def last(tx: Tx) -> str:
    """Return the cursor of the last event that readers can see; `0.0` if there is none."""
    query = (
        select(events.c.xid, events.c.id)
        .where(*_after(tx, None))
        .order_by(events.c.xid.desc(), events.c.id.desc())
        .limit(1)
    )
    row = tx.execute(query).one_or_none()
    return "0.0" if row is None else f"{row.xid}.{row.id}"


def _after(tx: Tx, cursor: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions for the visible events after a cursor."""
    xid, number = (0, 0) if cursor is None else _parse_cursor(cursor)
    if tx.dialect == "sqlite":
        # Two conditions, because SQLite searches an index only by the first column of a tuple.
        return [events.c.xid == _current_xid(), events.c.id > number]
    position = tuple_(events.c.xid, events.c.id) > tuple_(xid, number)
    return [events.c.xid < _oldest_running_xid(), position]


def _row_to_event(row: RowMapping) -> Event:
    columns: dict[str, Any] = {**row}
    return Event(cursor=f"{columns.pop('xid')}.{columns.pop('id')}", **columns)


def _parse_cursor(cursor: str) -> tuple[int, int]:
    xid, _, number = cursor.partition(".")
    # isdigit() accepts digits of other scripts, which int() does not parse.
    valid = (xid + number).isascii() and xid.isdigit() and number.isdigit()
    if not valid or max(int(xid), int(number)) >= 2**63:
        raise InvalidRequest(f"{cursor!r} is not a cursor of the event list.")
    return int(xid), int(number)
