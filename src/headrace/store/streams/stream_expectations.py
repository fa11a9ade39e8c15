"""What streaming queries have counted for their expectations: one row for each query."""

from __future__ import annotations

from sqlalchemy import select

from headrace.model.stream_expectation import StreamCounts
from headrace.model.stream_query import StreamQuery
from headrace.store.database import Tx
from headrace.store.tables import stream_expectations as table
from headrace.store.tables import stream_queries
from headrace.store.upserts import build_replacement

_SAVE = build_replacement(table, "query_id", "counts")


def save(tx: Tx, query_id: str, counts: StreamCounts) -> None:
    """Store the counts of a query, whose session the transaction has locked."""
    tx.execute(_SAVE[tx.dialect], {"query_id": query_id, "counts": counts})


def find(tx: Tx, query: StreamQuery) -> StreamCounts | None:
    """Return the counts of a query; None if no batch was counted.

    A query continues the counts of the attempt before it that had the same checkpoint.
    """
    own = select(table.c.counts).where(table.c.query_id == query.id)
    counts: StreamCounts | None = tx.execute(own).scalar_one_or_none()
    if counts is not None or query.checkpoint_place is None:
        return counts
    earlier = (
        select(table.c.counts)
        .join(stream_queries, stream_queries.c.id == table.c.query_id)
        .where(
            stream_queries.c.checkpoint == query.checkpoint_place,
            stream_queries.c.owner == query.owner,
        )
        .order_by(stream_queries.c.id.desc())
        .limit(1)
    )
    found: StreamCounts | None = tx.execute(earlier).scalar_one_or_none()
    return found
