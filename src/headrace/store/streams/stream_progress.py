"""The last batches of each streaming query: a ring of a fixed size.

Progress is not a change of state: it appends no event.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import RowMapping, Text, and_, cast, func, or_, select

from headrace.model.stream_query import MeasuredQuery, QueryProgress
from headrace.store.database import Tx
from headrace.store.streams import stream_minutes
from headrace.store.tables import stream_progress, stream_queries
from headrace.store.upserts import build_for_dialects

RING = 100
"""Number of batches that are kept for each query."""


def _make_upsert(new: Any) -> Any:
    """Return the statement that saves batches, and returns those that it did not have.

    A driver reports a batch again if the answer of the node was lost. A run without a checkpoint
    begins with batch 0 again, which is another batch.
    """
    is_new = or_(
        stream_progress.c.batch != new.excluded.batch,
        cast(stream_progress.c.progress, Text) != cast(new.excluded.progress, Text),
    )
    return new.on_conflict_do_update(
        index_elements=["query_id", "slot"],
        set_={"batch": new.excluded.batch, "progress": new.excluded.progress},
        where=is_new,
    ).returning(stream_progress.c.slot)


_SAVE = build_for_dialects(stream_progress, _make_upsert)


def save(tx: Tx, query_id: str, batches: Sequence[QueryProgress]) -> None:
    """Save the progress of batches; each replaces the batch that is RING batches older.

    The batches that are new count in the current minute.
    """
    by_slot = {batch.batch % RING: batch for batch in batches}
    if not by_slot:
        return
    rows = [
        {
            "query_id": query_id,
            "slot": slot,
            "batch": batch.batch,
            # `stream_expectations` has the counts.
            "progress": batch.model_dump(mode="json", exclude={"expectation_counts"}),
        }
        for slot, batch in by_slot.items()
    ]
    saved = set(tx.execute(_SAVE[tx.dialect], rows).scalars())
    if new := [batch for slot, batch in by_slot.items() if slot in saved]:
        stream_minutes.add(tx, query_id, new)


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
