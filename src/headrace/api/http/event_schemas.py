"""Bodies of the routes of events. See schemas.py."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.api.http.schemas import Instant, ResponseModel


class EventBody(ResponseModel):
    """A change of state."""

    cursor: str
    """Position in the log, for `after`."""
    entity: str
    """`statement`, `session`, `transaction`, `stream`, `definition`, `materialized_view`,
    `catalog_intent`, `job`, `job_change`, `deployment`, `savepoint`, `operation` or `node`."""
    entity_id: str
    """Id of the entity."""
    source: str | None = Field(serialization_alias="from")
    """State before the change; null for a new entity."""
    target: str = Field(serialization_alias="to")
    """State after the change."""
    at: Instant
    """When the change was made."""
    actor: str
    """Who made the change: an owner, a node id, or `driver:<session>:<epoch>`."""
    detail: dict[str, Any]
    """Further facts about the change, for example a reason."""


class EventPage(ResponseModel):
    """A page of events."""

    items: list[EventBody]
    """The events, oldest first."""
    next: str | None
    """The `after` of the next request; null if no other event exists."""
