"""One change of state, as the event log keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Written in the transaction that made the change."""

    cursor: str
    """Opaque; grows in the order in which `after` reads. Never skips a late commit."""
    entity: str
    """`statement`, `session` or `node`."""
    entity_id: str
    source: str | None
    """The state before; None when the entity was made."""
    target: str
    at: datetime
    actor: str
    """Who made the change: an owner, a node id, or `driver:<session>:<epoch>`."""
    detail: dict[str, Any]
