"""The last batches of each streaming query: a ring of a fixed size.

Progress is not a change of state: it appends no event.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import RowMapping, and_, delete, func, insert, select

from headrace.model.stream_query import MeasuredQuery, QueryProgress
from headrace.store.database import Tx
from headrace.store.tables import stream_progress, stream_queries

RING = 100
"""Number of batches that are kept for each query."""


def save(tx: Tx, query_id: str, batches: Sequence[QueryProgress]) -> None:
    """Save the progress of batches; each replaces the batch that is RING batches older."""
    by_slot = {batch.batch % RING: batch for batch in batches}
    if not by_slot:
        return
    tx.execute(
        delete(stream_progress).where(
            stream_progress.c.query_id == query_id, stream_progress.c.slot.in_(list(by_slot))
        )
    )
    rows = [
        {
            "query_id": query_id,
            "slot": slot,
            "batch": batch.batch,
            "progress": batch.model_dump(mode="json"),
        }
        for slot, batch in by_slot.items()
    ]
    tx.execute(insert(stream_progress), rows)


def read(tx: Tx, query_id: str, limit: int = RING) -> list[QueryProgress]:
    """Return at most `limit` batches of a query, oldest first."""
    query = (
        select(stream_progress.c.progress)
        .where(stream_progress.c.query_id == query_id)
        .order_by(stream_progress.c.batch.desc())
        .limit(limit)
    )
    newest_first = [QueryProgress.model_validate(value) for value in tx.execute(query).scalars()]
    return newest_first[::-1]


def read_last(tx: Tx, query_ids: Collection[str]) -> dict[str, QueryProgress]:
    """Return the newest batch of each of these queries, by the id of the query."""
    last = (
        select(stream_progress.c.query_id, func.max(stream_progress.c.batch).label("batch"))
        .where(stream_progress.c.query_id.in_(query_ids))
        .group_by(stream_progress.c.query_id)
        .subquery()
    )
    query = select(stream_progress.c.query_id, stream_progress.c.progress).join(
        last,
        and_(
            stream_progress.c.query_id == last.c.query_id,
            stream_progress.c.batch == last.c.batch,
        ),
    )
    return {row.query_id: QueryProgress.model_validate(row.progress) for row in tx.execute(query)}


def read_live(tx: Tx, limit: int) -> list[MeasuredQuery]:
    """Return at most `limit` live queries of all owners, each with its newest batch.

    The queries of older sessions come first.
    """
    last_batch = stream_queries.c.last_batch
    query = (
        select(
            *(stream_queries.c[name] for name in ("id", "owner", "scope", "name", "state")),
            stream_queries.c.failures,
            stream_progress.c.progress,
        )
        .select_from(stream_queries)
        .outerjoin(
            stream_progress,
            and_(
                stream_progress.c.query_id == stream_queries.c.id,
                stream_progress.c.slot == last_batch % RING,
                stream_progress.c.batch == last_batch,
            ),
        )
        .where(stream_queries.c.ended_at.is_(None))
        # The order of the index of live queries.
        .order_by(stream_queries.c.session_id)
        .limit(limit)
    )
    return [_to_measured(row) for row in tx.execute(query).mappings()]


def _to_measured(row: RowMapping) -> MeasuredQuery:
    progress = row["progress"]
    batch = None if progress is None else QueryProgress.model_validate(progress)
    return MeasuredQuery(**{**row, "progress": batch})
