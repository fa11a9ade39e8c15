"""Inserts with `ON CONFLICT`, which decides about a row whose key exists.

PostgreSQL and SQLite have the same clause, and SQLAlchemy has a class for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Executable, Table
from sqlalchemy.dialects import postgresql, sqlite

from headrace.store.database import Tx

_INSERTS: dict[str, Callable[[Table], Any]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


def insert_into(tx: Tx, table: Table) -> Any:
    """Return an insert that can have the clause, for the dialect of a transaction.

    Its type is that of no dialect: both have `on_conflict_do_nothing` and `on_conflict_do_update`.
    """
    return _INSERTS[tx.dialect](table)


def build_for_dialects(table: Table, complete: Callable[[Any], Any]) -> Mapping[str, Executable]:
    """Return a statement for each dialect, by its name.

    Args:
        complete: Returns the statement for an insert into the table.
    """
    return {name: complete(insert(table)) for name, insert in _INSERTS.items()}


def build_replacement(table: Table, key: str, *columns: str) -> Mapping[str, Executable]:
    """Return statements that insert a row, or replace columns of the row that has its key."""
    return build_for_dialects(
        table,
        lambda new: new.on_conflict_do_update(
            index_elements=[key], set_={name: new.excluded[name] for name in columns}
        ),
    )
