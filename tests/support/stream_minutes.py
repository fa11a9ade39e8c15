"""Minutes of streaming queries, and changes of their states, as if they were older."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import insert, select, update

from headrace.model.stream_history import HISTORY_MINUTES
from headrace.store.clock import current_minute
from headrace.store.database import Database
from headrace.store.tables import events
from headrace.store.tables import stream_minutes as table
from headrace.store.tables import stream_queries as queries


def add_minutes(store: Database, query_id: str, *ages: int, **values: int | None) -> None:
    """Insert minutes of a query that were so many minutes ago."""
    zeros = {each.name: 0 for each in table.c if each.name not in {"query_id", "slot", "minute"}}
    values = {**zeros, "watermark_gap": None, "backlog": None, "batches": 1, **values}
    with store.write("test") as tx:
        now = tx.execute(select(current_minute())).scalar_one()
        rows = [
            {
                **values,
                "query_id": query_id,
                "minute": now - age,
                "slot": (now - age) % HISTORY_MINUTES,
            }
            for age in ages
        ]
        tx.execute(insert(table), rows)


def make_older(store: Database, query_id: str, minutes: float) -> None:
    """Let all that has happened to a query be so many minutes older."""
    with store.write("test") as tx:
        found = tx.execute(select(events.c.id, events.c.at).where(events.c.entity_id == query_id))
        for event in found.all():
            at = event.at - timedelta(minutes=minutes)
            tx.execute(update(events).where(events.c.id == event.id).values(at=at))
        own = queries.c.id == query_id
        for column in (queries.c.created_at, queries.c.started_at, queries.c.ended_at):
            at = tx.execute(select(column).where(own)).scalar_one()
            if at is not None:
                change = {column.name: at - timedelta(minutes=minutes)}
                tx.execute(update(queries).where(own).values(change))
