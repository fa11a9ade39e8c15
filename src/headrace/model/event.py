"""One change of state, as the event log holds it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class EntityKind(StrEnum):
    """What an event is about."""

    STATEMENT = "statement"
    SESSION = "session"
    TRANSACTION = "transaction"
    STREAM = "stream"
    DEFINITION = "definition"
    MATERIALIZED_VIEW = "materialized_view"
    CATALOG_INTENT = "catalog_intent"
    JOB = "job"
    JOB_CHANGE = "job_change"
    DEPLOYMENT = "deployment"
    SAVEPOINT = "savepoint"
    OPERATION = "operation"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of the event log, written in the transaction that made the change."""

    cursor: str
    """Opaque position in the log. Reading after a cursor never skips a late commit."""
    entity: str
    """Kind of the entity: a value of `EntityKind`."""
    entity_id: str
    source: str | None
    """State before the change; None for the creation."""
    target: str
    at: datetime
    actor: str
    """Who made the change: an owner, a node id, or `driver:<session>:<epoch>`."""
    detail: dict[str, Any]
