"""The service for the event log."""

from __future__ import annotations

from headrace.control.context import NodeContext
from headrace.model.event import Event
from headrace.model.text import looks_like_id
from headrace.store import events


class EventLog:
    """Events of the whole store, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def last(self) -> str:
        """Return the cursor of the last event that readers can see."""
        with self._database.read() as tx:
            return events.last(tx)

    def read(
        self, *, after: str | None, entity: str | None, entity_id: str | None, limit: int
    ) -> list[Event]:
        """Return at most `limit` events after a cursor, oldest first.

        Without a cursor, start at the first event. Raise InvalidRequest if `after` is no cursor.
        """
        if entity_id is not None and not looks_like_id(entity_id):
            # No event has such an id, and PostgreSQL refuses some texts.
            entity_id = ""
        with self._database.read() as tx:
            return events.read(tx, after=after, entity=entity, entity_id=entity_id, limit=limit)
