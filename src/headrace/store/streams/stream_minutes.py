"""The last hours of each streaming query: a ring of minutes.

A minute is that of the database's clock when the driver reports a batch: the clock of a driver
decides nothing. The other measurements of a minute are in `stream_progress.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, case, delete, or_, select, tuple_

from headrace.model.stream_history import (
    HISTORY_MINUTES,
    LARGEST,
    LATEST,
    MAX_SUM,
    SUMS,
    QueryMinute,
    summarize_batches,
)
from headrace.model.stream_query import QueryProgress
from headrace.store.clock import current_minute, read_clock
from headrace.store.database import Tx
from headrace.store.tables import stream_minutes as table
from headrace.store.tables import stream_queries
from headrace.store.upserts import build_for_dialects

_VALUES = (*SUMS, *LARGEST, *LATEST)


def _make_upsert(insert: Any) -> Any:
    """Return the statement that adds batches to the current minute of a query.

    The slot and the minute may be read on both sides of the turn of a minute. The row is then one
    of two for its minute, which readers join.
    """
    minute = current_minute()
    new = insert.values(slot=minute % HISTORY_MINUTES, minute=minute)
    is_same = table.c.minute == new.excluded.minute
    changed = {
        name: case((is_same, _merge(name, new.excluded[name])), else_=new.excluded[name])
        for name in _VALUES
    }
    return new.on_conflict_do_update(
        index_elements=["query_id", "slot"],
        set_={**changed, "minute": new.excluded.minute},
    )


def _merge(name: str, added: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a value of a minute after further batches. Both numbers are at most MAX_SUM."""
    present = table.c[name]
    if name in SUMS:
        return case((present + added > MAX_SUM, MAX_SUM), else_=present + added)
    if name in LARGEST:
        stays = or_(added.is_(None), and_(present.is_not(None), present > added))
        return case((stays, present), else_=added)
    return added


_ADD = build_for_dialects(table, _make_upsert)


def add(tx: Tx, query_id: str, batches: Sequence[QueryProgress]) -> None:
    """Add batches that were not reported before, oldest first, to the current minute."""
    added = summarize_batches(batches)
    values = {name: getattr(added, name) for name in _VALUES}
    tx.execute(_ADD[tx.dialect], {"query_id": query_id, **values})


def read(
    tx: Tx, query_ids: Collection[str], minutes: int = HISTORY_MINUTES
) -> list[tuple[str, QueryMinute]]:
    """Return the last minutes of some queries, each with the id of its query.

    The order is by query, and by minute.
    """
    query = (
        select(table.c.query_id, table.c.minute, *(table.c[name] for name in _VALUES))
        .where(table.c.query_id.in_(query_ids), table.c.minute > current_minute() - minutes)
        .order_by(table.c.query_id, table.c.minute)
    )
    found = []
    for row in tx.execute(query).mappings():
        values = dict(row)
        found.append((values.pop("query_id"), QueryMinute(**values)))
    return found


def delete_ended(tx: Tx, limit: int) -> int:
    """Delete at most `limit` minutes of queries that ended before the minutes that are shown.

    Return their number.
    """
    # PostgreSQL searches no index with the clock, whose value changes within a query.
    end = read_clock(tx.connection) - timedelta(minutes=HISTORY_MINUTES)
    key = tuple_(table.c.query_id, table.c.slot)
    query = (
        select(table.c.query_id, table.c.slot)
        .join(stream_queries, stream_queries.c.id == table.c.query_id)
        .where(
            stream_queries.c.ended_at.is_not(None),
            stream_queries.c.ended_at < end,
        )
        # Several nodes delete different rows.
        .with_for_update(skip_locked=True, of=table)
        .limit(limit)
    )
    keys = [tuple(row) for row in tx.execute(query)]
    if keys:
        tx.execute(delete(table).where(key.in_(keys)))
    return len(keys)
