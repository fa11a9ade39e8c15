"""The streams and sinks that CREATE STREAM and CREATE SINK have defined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from headrace.errors import DefinitionExists
from headrace.model.ids import new_id
from headrace.model.stream_query import Definition, DefinitionKind
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import definitions

_ENTITY = "definition"
_LIVE = definitions.c.ended_at.is_(None)
_MAX_NAMES = 500
"""Largest number of names in one query: a database limits its parameters."""


def define(tx: Tx, definition: Definition, *, replace: bool, actor: str) -> None:
    """Insert a definition.

    Args:
        replace: Whether a live definition of the same kind and name is replaced.

    Raises:
        DefinitionExists: There is one, and `replace` is False.
    """
    if replace:
        drop(tx, definition.owner, definition.scope, definition.kind, definition.name, actor=actor)
    definition_id = new_id("de")
    row = {
        "id": definition_id,
        "owner": definition.owner,
        "scope": definition.scope,
        "kind": definition.kind,
        "name": definition.name,
        "name_key": definition.name.casefold(),
        "text": definition.text,
    }
    try:
        # After an error, PostgreSQL continues a transaction from a savepoint only.
        with tx.connection.begin_nested():
            tx.execute(insert(definitions).values(created_at=clock()), row)
    except IntegrityError as error:
        raise build_exists_error(definition.kind, definition.name) from error
    detail = {"kind": definition.kind, "name": definition.name}
    events.append(tx, _ENTITY, definition_id, None, "live", actor=actor, detail=detail)


def build_exists_error(kind: DefinitionKind, name: str) -> DefinitionExists:
    """Build the error for a name that another definition of the kind has."""
    return DefinitionExists(
        f"A {kind} named {name!r} already exists.",
        hint=f"Choose another name, or use CREATE OR REPLACE {kind.upper()}.",
    )


def drop(
    tx: Tx, owner: str, scope: str, kind: DefinitionKind, name: str, *, actor: str
) -> str | None:
    """Drop a definition. Return its name, or None if there is no such definition."""
    change = (
        update(definitions)
        .where(
            definitions.c.owner == owner,
            definitions.c.scope == scope,
            definitions.c.kind == kind,
            definitions.c.name_key == name.casefold(),
            _LIVE,
        )
        .values(ended_at=clock())
        .returning(definitions.c.id, definitions.c.name)
    )
    row = tx.execute(change).one_or_none()
    if row is None:
        return None
    detail = {"kind": kind, "name": row.name}
    events.append(tx, _ENTITY, row.id, "live", "dropped", actor=actor, detail=detail)
    dropped: str = row.name
    return dropped


def find(
    tx: Tx, owner: str, scope: str, kind: DefinitionKind, names: Sequence[str]
) -> list[Definition]:
    """Return the definitions of a kind that have one of these names, in any case and order."""
    keys = list(dict.fromkeys(name.casefold() for name in names))
    found: list[Definition] = []
    for first in range(0, len(keys), _MAX_NAMES):
        query = select(definitions).where(
            definitions.c.owner == owner,
            definitions.c.scope == scope,
            definitions.c.kind == kind,
            definitions.c.name_key.in_(keys[first : first + _MAX_NAMES]),
            _LIVE,
        )
        found += map(_from_row, tx.execute(query))
    return found


def list_live(tx: Tx, owner: str, scope: str, kind: DefinitionKind) -> list[Definition]:
    """Return the definitions of a kind of an owner in a scope, by name."""
    query = (
        select(definitions)
        .where(
            definitions.c.owner == owner,
            definitions.c.scope == scope,
            definitions.c.kind == kind,
            _LIVE,
        )
        .order_by(definitions.c.name_key)
    )
    return [_from_row(row) for row in tx.execute(query)]


def _from_row(row: Row[Any]) -> Definition:
    return Definition(
        owner=row.owner,
        scope=row.scope,
        kind=DefinitionKind(row.kind),
        name=row.name,
        text=row.text,
        created_at=row.created_at,
    )
