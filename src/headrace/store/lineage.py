"""Lineage: what statements and streaming queries read and write, and what is between tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, Subquery, and_, bindparam, delete, func, insert, null, select

from headrace.model.lineage import LineageDirection, TableUse
from headrace.model.stream_query import ADHOC_SCOPE, StreamQuery
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import lineage as table
from headrace.store.tables import run_statements, runs, statements, stream_queries
from headrace.store.tables import stream_lineage as stream_table

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


def save_of_stream(tx: Tx, query: StreamQuery, tables: Sequence[TableUse]) -> None:
    """Store the lineage of a streaming query, in place of an earlier one."""
    tx.execute(delete(stream_table).where(stream_table.c.query_id == query.id))
    rows = [
        {
            "query_id": query.id,
            "position": position,
            "owner": query.owner,
            "direction": use.direction,
            "table_key": use.key,
            "table_use": use,
        }
        for position, use in enumerate(tables)
    ]
    if rows:
        tx.execute(insert(stream_table).values(at=clock()), rows)


def list_of_statement(tx: Tx, statement_id: str) -> list[TableUse]:
    """Return the tables that a statement has read and written, in the order of its plan."""
    query = select(table.c.table_use).where(table.c.statement_id == statement_id)
    uses = tx.execute(query.order_by(table.c.position)).scalars()
    return [use for use in uses if use is not None]


def list_of_stream(tx: Tx, query_id: str) -> list[TableUse]:
    """Return the tables that a streaming query reads and writes, in the order of its plan."""
    query = select(stream_table.c.table_use).where(stream_table.c.query_id == query_id)
    uses = tx.execute(query.order_by(stream_table.c.position)).scalars()
    return [use for use in uses if use is not None]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A table beside another one, and what has read one and written the other."""

    table_key: str
    statement_id: str
    """Id of a statement, or of a streaming query."""
    at: datetime
    job: str | None
    """Name of the job whose run the statement belongs to, or whose query it is."""
    run_id: str | None


def list_neighbours(
    tx: Tx,
    table_key: str,
    direction: LineageDirection,
    *,
    owners: Collection[str] | None,
    newest: int,
    limit: int,
) -> list[Neighbour]:
    """Return the tables that statements have written from a table, or read for it.

    Args:
        direction: What the statements have done with the table. For `write`, the tables are
            returned that they have read, and for `read` those that they have written.
        owners: Owners of the statements; None: all.
        newest: Number of the newest statements that are considered.
        limit: Largest number of neighbours.
    """
    considered = _select_newest(
        table.c.statement_id, table_key, direction, owners=owners, limit=newest
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
            considered,
            other,
            and_(
                other.c.statement_id == considered.c.statement_id,
                other.c.direction != direction,
            ),
        )
        .outerjoin(run_statements, run_statements.c.statement_id == other.c.statement_id)
        .outerjoin(runs, runs.c.id == run_statements.c.run_id)
        .limit(limit)
    )
    return [Neighbour(**row) for row in tx.execute(query).mappings()]


def _select_newest(
    id_column: Column[str],
    table_key: str,
    direction: LineageDirection,
    *,
    owners: Collection[str] | None,
    limit: int,
) -> Subquery:
    """Select the ids of the newest statements or streaming queries that have used a table.

    Args:
        id_column: The column of their ids, in the table of their lineage.
        owners: Owners of what is selected; None: all.
    """
    columns = id_column.table.c
    conditions = [columns.table_key == table_key, columns.direction == direction]
    if owners is not None:
        conditions.append(columns.owner.in_(owners))
    newest = select(id_column).where(*conditions).order_by(id_column.desc())
    return newest.limit(limit).subquery()


def list_stream_neighbours(
    tx: Tx,
    table_key: str,
    direction: LineageDirection,
    *,
    owners: Collection[str] | None,
    newest: int,
    limit: int,
) -> list[Neighbour]:
    """Return the tables that streaming queries write from a table, or read for it.

    The arguments are those of `list_neighbours`.
    """
    considered = _select_newest(
        stream_table.c.query_id, table_key, direction, owners=owners, limit=newest
    )
    other = stream_table.alias()
    query = (
        select(
            other.c.table_key,
            other.c.query_id.label("statement_id"),
            other.c.at,
            func.nullif(stream_queries.c.scope, ADHOC_SCOPE).label("job"),
            null().label("run_id"),
        )
        .join_from(
            considered,
            other,
            and_(other.c.query_id == considered.c.query_id, other.c.direction != direction),
        )
        .join(stream_queries, stream_queries.c.id == other.c.query_id)
        .limit(limit)
    )
    return [Neighbour(**row) for row in tx.execute(query).mappings()]


def has_table(tx: Tx, table_key: str, *, owners: Collection[str] | None) -> bool:
    """Return whether a statement or a stream of these owners has read or written a table."""
    for each in (table, stream_table):
        query = select(each.c.position).where(each.c.table_key == table_key)
        if owners is not None:
            query = query.where(each.c.owner.in_(owners))
        if tx.execute(query.limit(1)).one_or_none() is not None:
            return True
    return False


def list_recent_tables(tx: Tx, *, owners: Collection[str] | None) -> set[str]:
    """Return the tables that statements and streams of these owners have used lately."""
    found = set[str]()
    for each, key in ((table, table.c.statement_id), (stream_table, stream_table.c.query_id)):
        newest = (
            select(each.c.owner, each.c.table_key)
            .order_by(key.desc())
            .limit(_NEWEST_ROWS)
            .subquery()
        )
        query = select(newest.c.table_key)
        if owners is not None:
            query = query.where(newest.c.owner.in_(owners))
        found.update(tx.execute(query).scalars())
    return found
