"""The service for the event log."""

from __future__ import annotations

from collections.abc import Collection

from headrace.control.context import NodeContext
from headrace.control.policy import Caller, visible_owners
from headrace.model.event import Event
from headrace.model.ids import looks_like_id
from headrace.store import events


class SharedEventReads:
    """Reads of the log for a feed that serves many callers, and filters the events of each."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def last(self) -> str:
        """Return the cursor of the last event that readers can see."""
        with self._database.read() as tx:
            return events.last(tx)

    def read(
        self,
        *,
        after: str | None,
        entity: str | None,
        entity_id: str | None,
        owners: Collection[str] | None,
        limit: int,
    ) -> list[Event]:
        """Return at most `limit` events after a cursor, oldest first.

        Without a cursor, start at the first event. Raise InvalidRequest if `after` is no cursor.

        Args:
            owners: Owners of the entities; None: events of all owners and of nodes.
        """
        if entity_id is not None and not looks_like_id(entity_id):
            # No event has such an id, and PostgreSQL refuses some texts.
            entity_id = ""
        with self._database.read() as tx:
            return events.read(
                tx, after=after, owners=owners, entity=entity, entity_id=entity_id, limit=limit
            )


class EventLog:
    """Events of the whole store, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self.shared_reads = SharedEventReads(context)

    def visible_owners(self, caller: Caller) -> frozenset[str] | None:
        """Return the owners whose events a caller may read; None: events of all owners."""
        return visible_owners(caller)

    def last(self, caller: Caller) -> str:  # noqa: ARG002 - it says nothing about an object
        """Return the cursor of the last event."""
        return self.shared_reads.last()

    def read_newest(
        self, caller: Caller, entity_id: str, *, before: str | None, limit: int
    ) -> list[Event]:
        """Return at most `limit` events of an entity that the caller may read, newest first.

        Raise InvalidRequest if `before` is no cursor.

        Args:
            entity_id: An id that the store has.
            before: Only events before this cursor.
        """
        owners = self.visible_owners(caller)
        with self._database.read() as tx:
            return events.read_newest(tx, [entity_id], owners=owners, before=before, limit=limit)

    def read(
        self,
        caller: Caller,
        *,
        after: str | None,
        entity: str | None,
        entity_id: str | None,
        limit: int,
    ) -> list[Event]:
        """Return at most `limit` events that the caller may read, as `SharedEventReads` does."""
        owners = self.visible_owners(caller)
        return self.shared_reads.read(
            after=after, entity=entity, entity_id=entity_id, owners=owners, limit=limit
        )
