"""Materialized views: their creation, their generations, and their end.

A view is *being created* until its first generation is committed. A view that is never completed
ends with its statement, or with the abort of the statement's table transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from headrace.errors import MaterializedViewExists
from headrace.model.ids import new_id
from headrace.model.lifecycle import MATERIALIZED_VIEW, MaterializedViewState
from headrace.model.materialized_view import MaterializedView, ViewRows
from headrace.store import events, transactions
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import materialized_views as table

_LIVE = table.c.ended_at.is_(None)
_COMPLETE = table.c.current_generation.is_not(None)
_RECORD = [column for column in table.c if column.name != "name_key"]
_SELECT = select(*_RECORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMaterializedView:
    """A materialized view to be inserted, with its first generation."""

    owner: str
    name: str
    identity: str
    target: str
    text: str
    rows: ViewRows
    statement_id: str
    attempt: int
    """Attempt of the statement."""


def insert_view(tx: Tx, new: NewMaterializedView, *, actor: str) -> MaterializedView:
    """Insert a view that is being created, and begin its first generation.

    The numbers of generations continue those of the dropped views of that name that are still in
    the store, so that a table that is to be dropped is not mistaken for a new one.

    Raises:
        MaterializedViewExists: A live view has the name in the same catalog.
    """
    used = select(func.max(table.c.generation)).where(
        table.c.identity == new.identity, table.c.target == new.target
    )
    view_id = new_id("mv")
    row = {
        "id": view_id,
        "owner": new.owner,
        "name": new.name,
        "name_key": new.name.casefold(),
        "identity": new.identity,
        "target": new.target,
        "text": new.text,
        "rows": new.rows,
        "statement_id": new.statement_id,
        "writer_id": new.statement_id,
        "writer_attempt": new.attempt,
        "generation": (tx.execute(used).scalar() or 0) + 1,
    }
    try:
        # After an error, PostgreSQL continues a transaction from a savepoint only.
        with tx.connection.begin_nested():
            tx.execute(insert(table).values(created_at=clock(), began_at=clock()), row)
    except IntegrityError as error:
        name = ".".join(new.rows.path)
        raise MaterializedViewExists(
            f"A materialized view named {name} exists, or is being created.",
            hint="Choose another name, or drop that view first.",
        ) from error
    detail = {"path": new.rows.path}
    events.append_creation(tx, MATERIALIZED_VIEW, view_id, actor=actor, detail=detail)
    view = lock(tx, view_id)
    assert view is not None
    return view


def begin_generation(
    tx: Tx, view: MaterializedView, statement_id: str, attempt: int
) -> MaterializedView:
    """Begin the next generation of a locked view, and return the view.

    Repeating the call for the same attempt of a statement changes nothing.
    """
    if (view.writer_id, view.writer_attempt) == (statement_id, attempt):
        return view
    values = {"generation": view.generation + 1, "writer_id": statement_id}
    values["writer_attempt"] = attempt
    change = update(table).where(table.c.id == view.id)
    tx.execute(change.values(values).values(began_at=clock()))
    changed = lock(tx, view.id)
    assert changed is not None
    return changed


def assign(tx: Tx, view_id: str, statement_id: str) -> None:
    """Record that a statement is to write the next generation."""
    tx.execute(update(table).where(table.c.id == view_id).values(statement_id=statement_id))


def attach_query(tx: Tx, view_id: str, query_id: str) -> None:
    """Record the query that refreshes a view."""
    tx.execute(update(table).where(table.c.id == view_id).values(query_id=query_id))


def commit_generation(tx: Tx, view: MaterializedView, *, actor: str) -> None:
    """Make the last generation of a locked view the current one. The catalog shows it already."""
    change = update(table).where(table.c.id == view.id)
    tx.execute(change.values(current_generation=view.generation, fresh_as_of=table.c.began_at))
    detail = {"generation": view.generation, "statement": view.writer_id}
    target = MaterializedViewState.ACTIVE
    events.append(
        tx, MATERIALIZED_VIEW.entity, view.id, view.state, target, actor=actor, detail=detail
    )


def end(tx: Tx, view: MaterializedView, *, actor: str) -> None:
    """End a locked view that is dropped, or whose creation has failed."""
    tx.execute(update(table).where(table.c.id == view.id).values(ended_at=clock()))
    is_new = view.state is MaterializedViewState.CREATING
    target = MaterializedViewState.FAILED if is_new else MaterializedViewState.DROPPED
    events.append(tx, MATERIALIZED_VIEW.entity, view.id, view.state, target, actor=actor)


def end_unfinished(tx: Tx, statement_id: str, *, actor: str) -> None:
    """End the view that a statement has begun to create, unless its table may still appear."""
    view = lock_unfinished(tx, statement_id)
    if view is not None and transactions.live(tx, statement_id) is None:
        end(tx, view, actor=actor)


def count_begun(tx: Tx, statement_id: str) -> int:
    """Return the number of views that a statement has begun to create, live or not."""
    query = select(func.count()).where(table.c.writer_id == statement_id)
    return int(tx.execute(query).scalar_one())


def creating_statements(tx: Tx, statement_ids: Collection[str]) -> list[str]:
    """Return those of the statements that have begun to create a live view."""
    query = select(table.c.writer_id).where(table.c.writer_id.in_(statement_ids))
    return list(tx.execute(query.where(_LIVE, ~_COMPLETE)).scalars())


def list_named(
    tx: Tx, owners: Collection[str] | None, name: Sequence[str]
) -> list[MaterializedView]:
    """Return the live views of these owners whose names end with these parts.

    Args:
        owners: Owners of the views; None: all.
        name: The name of a view, with its namespace and catalog or without them.
    """
    wanted = [part.casefold() for part in name]
    query = _SELECT.where(table.c.name_key == wanted[-1], _LIVE)
    if owners is not None:
        query = query.where(table.c.owner.in_(owners))
    return [
        view
        for view in _fetch(tx, query.order_by(table.c.id))
        if [part.casefold() for part in view.rows.path][-len(wanted) :] == wanted
    ]


def list_live(tx: Tx, owners: Collection[str] | None, limit: int) -> list[MaterializedView]:
    """Return at most `limit` live views of these owners, by name; None: those of all."""
    query = _SELECT.where(_LIVE)
    if owners is not None:
        query = query.where(table.c.owner.in_(owners))
    return _fetch(tx, query.order_by(table.c.name_key, table.c.id).limit(limit))


def get(tx: Tx, view_id: str) -> MaterializedView | None:
    """Return a view, or None if there is no such view."""
    return _first(tx, _SELECT.where(table.c.id == view_id))


def lock(tx: Tx, view_id: str) -> MaterializedView | None:
    """Lock a view until the transaction ends, and return it; None if there is no such view."""
    return _first(tx, _SELECT.where(table.c.id == view_id).with_for_update())


def of_writer(tx: Tx, statement_id: str) -> MaterializedView | None:
    """Return the view whose last generation a statement began, live or not, or None."""
    return _first(tx, _select_of_writer(statement_id))


def lock_of_writer(tx: Tx, statement_id: str) -> MaterializedView | None:
    """Lock the view that `of_writer` returns, and return it."""
    return _first(tx, _select_of_writer(statement_id).with_for_update())


def assigned_to(tx: Tx, statement_id: str, owner: str) -> MaterializedView | None:
    """Return the live view that a statement is to refresh, or None."""
    query = _SELECT.where(
        table.c.owner == owner, table.c.statement_id == statement_id, _LIVE, _COMPLETE
    )
    return _first(tx, query)


def lock_unfinished(tx: Tx, statement_id: str) -> MaterializedView | None:
    """Lock the live view that a statement has begun to create, and return it, or None."""
    query = _SELECT.where(table.c.writer_id == statement_id, _LIVE, ~_COMPLETE)
    return _first(tx, query.with_for_update())


def _select_of_writer(statement_id: str) -> Select[Any]:
    return _SELECT.where(table.c.writer_id == statement_id).order_by(table.c.id.desc()).limit(1)


def _fetch(tx: Tx, query: Select[Any]) -> list[MaterializedView]:
    return [MaterializedView(**row) for row in tx.execute(query).mappings()]


def _first(tx: Tx, query: Select[Any]) -> MaterializedView | None:
    row = tx.execute(query).mappings().first()
    return None if row is None else MaterializedView(**row)
