"""Lineage: the tables that statements have read and written, and the statements between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, bindparam, insert, select

from headrace.model.lineage import LineageDirection, TableUse
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import lineage as table
from headrace.store.tables import run_statements, runs, statements

_INSERT = insert(table).values(
    owner=select(statements.c.owner)
    .where(statements.c.id == bindparam("of_statement"))
    .scalar_subquery(),
    at=clock(),
)
_NEWEST_ROWS = 5_000
"""Newest rows of all owners that are searched for names."""


def save(tx: Tx, statement_id: str, tables: Sequence[TableUse]) -> None:
    """Store the lineage of a statement, in the transaction that ends it."""
    rows = [
        {
            "of_statement": statement_id,
            "statement_id": statement_id,
            "position": position,
            "direction": use.direction,
            "table_key": use.key,
            "table_use": use,
        }
        for position, use in enumerate(tables)
    ]
    if rows:
        tx.execute(_INSERT, rows)


def list_of_statement(tx: Tx, statement_id: str) -> list[TableUse]:
    """Return the tables that a statement has read and written, in the order of its plan."""
    query = select(table.c.table_use).where(table.c.statement_id == statement_id)
    uses = tx.execute(query.order_by(table.c.position)).scalars()
    return [use for use in uses if use is not None]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A table beside another one, and a statement that has read one and written the other."""

    table_key: str
    statement_id: str
    at: datetime
    job: str | None
    """Name of the batch job whose run the statement belongs to."""
    run_id: str | None


def list_neighbours(
    tx: Tx,
    table_key: str,
    direction: LineageDirection,
    *,
    owners: Collection[str] | None,
    statements_limit: int,
    limit: int,
) -> list[Neighbour]:
    """Return the tables that statements have written from a table, or read for it.

    Args:
        direction: What the statements have done with the table. For `write`, the tables are
            returned that they have read, and for `read` those that they have written.
        owners: Owners of the statements; None: all.
        statements_limit: Number of the newest statements that are considered.
        limit: Largest number of neighbours.
    """
    conditions = [table.c.table_key == table_key, table.c.direction == direction]
    if owners is not None:
        conditions.append(table.c.owner.in_(owners))
    newest = (
        select(table.c.statement_id)
        .where(*conditions)
        .order_by(table.c.statement_id.desc())
        .limit(statements_limit)
        .subquery()
    )
    other = table.alias()
    query = (
        select(
            other.c.table_key,
            other.c.statement_id,
            other.c.at,
            runs.c.name.label("job"),
            runs.c.id.label("run_id"),
        )
        .join_from(
            newest,
            other,
            and_(
                other.c.statement_id == newest.c.statement_id,
                other.c.direction != direction,
            ),
        )
        .outerjoin(run_statements, run_statements.c.statement_id == other.c.statement_id)
        .outerjoin(runs, runs.c.id == run_statements.c.run_id)
        .limit(limit)
    )
    return [Neighbour(**row) for row in tx.execute(query).mappings()]


def has_table(tx: Tx, table_key: str, *, owners: Collection[str] | None) -> bool:
    """Return whether a statement of these owners has read or written a table."""
    query = select(table.c.position).where(table.c.table_key == table_key)
    if owners is not None:
        query = query.where(table.c.owner.in_(owners))
    return tx.execute(query.limit(1)).one_or_none() is not None


def list_recent_tables(tx: Tx, *, owners: Collection[str] | None) -> set[str]:
    """Return the tables that statements of these owners have used lately."""
    newest = (
        select(table.c.owner, table.c.table_key)
        .order_by(table.c.statement_id.desc())
        .limit(_NEWEST_ROWS)
        .subquery()
    )
    query = select(newest.c.table_key)
    if owners is not None:
        query = query.where(newest.c.owner.in_(owners))
    return set(tx.execute(query).scalars())
