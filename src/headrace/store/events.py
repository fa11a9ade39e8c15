"""The event log: one row for each change of state, written in the transaction that makes it.

Readers receive events in the order (generation, xid, id). On PostgreSQL, `xid` is the number of the
writing transaction, and readers stay below the oldest transaction that still runs: an event that
commits late never lies behind a reader's cursor. A server numbers its transactions by itself, so
the numbers of restored events mean nothing on another server. The first node that opens a restored
store starts a new generation (migrate.py). Events of earlier generations are complete,
and come before the events of the new one.

On SQLite, writers take turns, so the order of ids is the order of commits. The generation and the
xid are 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    RowMapping,
    bindparam,
    func,
    insert,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from headrace.model.event import Event, EventPosition
from headrace.model.failure import Failure
from headrace.model.lifecycle import EntityKind, Lifecycle
from headrace.store.clock import Instant, clock
from headrace.store.database import Tx
from headrace.store.notifications import EVENTS
from headrace.store.tables import (
    deployments,
    events,
    id_type,
    job_changes,
    jobs,
    metadata,
    operations,
    runs,
    savepoints,
    statements,
    stream_queries,
    transactions,
    users,
)

_SELECT = select(events)
_ORDER = (events.c.generation, events.c.xid, events.c.id)


class _current_xid(FunctionElement[int]):  # noqa: N801 - it stands for an SQL function
    """The number of the current transaction; 0 on SQLite."""

    type = BigInteger()
    inherit_cache = True


class _current_generation(FunctionElement[int]):  # noqa: N801 - it stands for an SQL query
    """The generation of new events; 0 on SQLite."""

    type = BigInteger()
    inherit_cache = True


class _oldest_running_xid(FunctionElement[int]):  # noqa: N801 - it stands for an SQL function
    """The lowest number of a transaction that may still commit; PostgreSQL only."""

    type = BigInteger()
    inherit_cache = True


@compiles(_current_xid, "postgresql")
def _compile_current_xid(_element: _current_xid, _compiler: SQLCompiler, **_options: Any) -> str:
    return "(pg_current_xact_id()::text::bigint)"


@compiles(_current_generation, "postgresql")
def _compile_generation(
    _element: _current_generation, _compiler: SQLCompiler, **_options: Any
) -> str:
    return "(SELECT max(generation) FROM event_generations)"


@compiles(_oldest_running_xid, "postgresql")
def _compile_oldest_xid(
    _element: _oldest_running_xid, _compiler: SQLCompiler, **_options: Any
) -> str:
    return "(pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"


@compiles(_current_generation, "sqlite")
@compiles(_current_xid, "sqlite")
def _compile_zero(_element: FunctionElement[int], _compiler: SQLCompiler, **_options: Any) -> str:
    return "0"


_APPEND = insert(events).values(
    generation=_current_generation(),
    xid=_current_xid(),
    entity=bindparam("entity"),
    entity_id=bindparam("entity_id"),
    source=bindparam("source"),
    target=bindparam("target"),
    at=func.coalesce(bindparam("at", type_=Instant()), clock()),
    actor=bindparam("actor"),
    detail=bindparam("detail"),
)


_ENTITY_ID = bindparam("of_entity", type_=id_type())
_OWNED_TABLES = {EntityKind.STREAM: stream_queries} | {
    kind: metadata.tables[f"{kind}s"]
    for kind in EntityKind
    if f"{kind}s" in metadata.tables and "owner" in metadata.tables[f"{kind}s"].c
}
"""The tables of entities with an owner. A table has the name of its entity in the plural."""
_OWNERS: dict[str, ColumnElement[str]] = {
    kind: select(table.c.owner).where(table.c.id == _ENTITY_ID).scalar_subquery()
    for kind, table in _OWNED_TABLES.items()
} | {
    EntityKind.USER: select(users.c.id).where(users.c.id == _ENTITY_ID).scalar_subquery(),
    EntityKind.TRANSACTION: select(statements.c.owner)
    .join(transactions, transactions.c.statement_id == statements.c.id)
    .where(transactions.c.id == _ENTITY_ID)
    .scalar_subquery(),
    EntityKind.SAVEPOINT: select(jobs.c.owner)
    .join(savepoints, savepoints.c.job_id == jobs.c.id)
    .where(savepoints.c.id == _ENTITY_ID)
    .scalar_subquery(),
    EntityKind.OPERATION: select(
        func.coalesce(deployments.c.owner, job_changes.c.owner, runs.c.owner)
    )
    .select_from(operations)
    .outerjoin(deployments, deployments.c.id == operations.c.ref)
    .outerjoin(job_changes, job_changes.c.id == operations.c.ref)
    .outerjoin(runs, runs.c.id == operations.c.ref)
    .where(operations.c.id == _ENTITY_ID)
    .scalar_subquery(),
}
"""The owner of an entity of each kind, when its event is appended. Nodes have no owner."""

_APPEND_OWNED = {entity: _APPEND.values(owner=owner) for entity, owner in _OWNERS.items()}


def _append_rows(tx: Tx, entity: str, rows: list[dict[str, Any]]) -> None:
    """Append events of entities of one kind."""
    if entity in _APPEND_OWNED:
        rows = [row | {"of_entity": row["entity_id"]} for row in rows]
    tx.execute(_APPEND_OWNED.get(entity, _APPEND), rows[0] if len(rows) == 1 else rows)
    tx.wake(EVENTS)


class EarlierChange(NamedTuple):
    """A change of state that is reported together with the next one."""

    target: str
    at: datetime


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
    earlier: EarlierChange | None = None,
    at: datetime | None = None,
) -> None:
    """Append the event of a change of state.

    Args:
        failure: A failure to add to the detail, with a short message.
        earlier: A change before this one, whose event is appended too. The source is the state
            before both changes.
        at: Time of the change, if it is earlier than now.
    """
    row: dict[str, Any] = {"entity": entity, "entity_id": entity_id, "actor": actor, "at": at}
    change = {"source": source, "target": target, "detail": _full_detail(detail, failure)}
    if earlier is None:
        _append_rows(tx, entity, [row | change])
    else:
        middle = earlier.target
        first: dict[str, Any] = {
            "source": source,
            "target": middle,
            "detail": {},
            "at": earlier.at,
        }
        _append_rows(tx, entity, [row | first, row | change | {"source": middle}])


def append_creation(
    tx: Tx,
    lifecycle: Lifecycle[Any],
    entity_id: str,
    *,
    actor: str,
    detail: dict[str, Any] | None = None,
) -> None:
    """Append the event of a new entity, which is in the initial state of its lifecycle."""
    append_creations(tx, lifecycle, {entity_id: detail or {}}, actor=actor)


def append_creations(
    tx: Tx, lifecycle: Lifecycle[Any], details: Mapping[str, dict[str, Any]], *, actor: str
) -> None:
    """Append the events of new entities, as `append_creation` does of one.

    Args:
        details: Detail of the event of each entity, by id.
    """
    row = {"source": None, "target": lifecycle.initial, "actor": actor, "at": None}
    rows = [
        {**row, "entity": lifecycle.entity, "entity_id": entity_id, "detail": detail}
        for entity_id, detail in details.items()
    ]
    _append_rows(tx, lifecycle.entity, rows)


def append_all(
    tx: Tx,
    entity: str,
    entity_ids: Sequence[str],
    source: str | None,
    target: str,
    *,
    actor: str,
    detail: dict[str, Any] | None = None,
    failure: Failure | None = None,
) -> None:
    """Append one event for each of these entities, which made the same change of state.

    Args:
        failure: A failure to add to the detail, without its stack trace.
    """
    row = {
        "entity": entity,
        "source": source,
        "target": target,
        "actor": actor,
        "detail": _full_detail(detail, failure),
        "at": None,
    }
    _append_rows(tx, entity, [{**row, "entity_id": entity_id} for entity_id in entity_ids])


def _full_detail(detail: dict[str, Any] | None, failure: Failure | None) -> dict[str, Any]:
    full_detail = dict(detail or {})
    if failure is not None:
        full_detail["failure"] = failure.summarize().model_dump(mode="json", exclude_none=True)
    return full_detail


def read(
    tx: Tx,
    *,
    after: str | None,
    owners: Collection[str] | None = None,
    entity: str | None = None,
    entity_id: str | None = None,
    limit: int,
) -> list[Event]:
    """Return at most `limit` events after a cursor, oldest first.

    Args:
        owners: Owners of the entities; None: events of all entities, also of nodes.
        after: Cursor of the last event that the caller has; None: from the first event on.

    Raises:
        InvalidRequest: `after` is not a cursor.
    """
    query = _SELECT.where(*_after(tx, after))
    if owners is not None:
        query = query.where(events.c.owner.in_(owners))
    if entity is not None:
        query = query.where(events.c.entity == entity)
    if entity_id is not None:
        query = query.where(events.c.entity_id == entity_id)
    query = query.order_by(*_ORDER).limit(limit)
    return [to_event(row) for row in tx.execute(query).mappings()]


def read_newest(
    tx: Tx,
    entity_ids: Collection[str],
    *,
    owners: Collection[str] | None = None,
    before: str | None = None,
    limit: int,
) -> list[Event]:
    """Return at most `limit` committed events of some entities, newest first.

    No reader continues forwards from them. So, unlike those of `read`, they are complete without
    waiting for older transactions.

    Args:
        owners: Owners of the entities; None: events of all entities.
        before: Only events before this cursor; None: from the last event on.

    Raises:
        InvalidRequest: `before` is not a cursor.
    """
    query = _SELECT.where(events.c.entity_id.in_(entity_ids))
    if before is not None:
        query = query.where(tuple_(*_ORDER) < tuple_(*EventPosition.parse(before)))
    if owners is not None:
        query = query.where(events.c.owner.in_(owners))
    query = query.order_by(*(column.desc() for column in _ORDER)).limit(limit)
    return [to_event(row) for row in tx.execute(query).mappings()]


def last(tx: Tx) -> str:
    """Return the cursor of the last event that readers can see; `0.0.0` if there is none."""
    query = (
        select(*_ORDER)
        .where(*_after(tx, None))
        .order_by(*(column.desc() for column in _ORDER))
        .limit(1)
    )
    row = tx.execute(query).one_or_none()
    return EventPosition(*([] if row is None else row)).cursor


def _after(tx: Tx, cursor: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions for the visible events after a cursor."""
    after = EventPosition() if cursor is None else EventPosition.parse(cursor)
    if tx.dialect == "sqlite":
        # Separate conditions, because SQLite searches an index only by the first column of a tuple.
        current = (events.c.generation == _current_generation(), events.c.xid == _current_xid())
        return [*current, events.c.id > after.number]
    position = tuple_(*_ORDER) > tuple_(*after)
    is_complete = events.c.generation < _current_generation()
    return [position, or_(is_complete, events.c.xid < _oldest_running_xid())]


def to_event(row: RowMapping) -> Event:
    """Return the event of a row of the table."""
    columns: dict[str, Any] = {**row}
    cursor = ".".join(str(columns.pop(column.name)) for column in _ORDER)
    return Event(cursor=cursor, **columns)
