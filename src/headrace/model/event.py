"""One change of state, as the event log holds it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

from headrace.errors import InvalidRequest

_CURSOR = re.compile(r"([0-9]{1,10})\.([0-9]{1,19})\.([0-9]{1,19})")


class EventPosition(NamedTuple):
    """A place in the event log. The order of positions is the order of events."""

    generation: int = 0
    xid: int = 0
    number: int = 0

    @classmethod
    def parse(cls, cursor: str) -> Self:
        """Return the position that a cursor names. Raise InvalidRequest if it is not a cursor."""
        match = _CURSOR.fullmatch(cursor)
        if match is not None:
            position = cls(*map(int, match.groups()))
            if position.generation < 2**31 and max(position.xid, position.number) < 2**63:
                return position
        raise InvalidRequest(f"{cursor!r} is not a cursor of the event list.")

    @property
    def cursor(self) -> str:
        """The cursor that names the position."""
        return f"{self.generation}.{self.xid}.{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of the event log, written in the transaction that made the change."""

    cursor: str
    """Opaque position in the log. Reading after a cursor never skips a late commit."""
    entity: str
    """Kind of the entity: a value of `EntityKind`."""
    entity_id: str
    owner: str | None
    """Owner of the entity; None for a node."""
    source: str | None
    """State before the change; None for the creation."""
    target: str
    at: datetime
    actor: str
    """Who made the change: an owner, a node id, or `driver:<session>:<epoch>`."""
    detail: dict[str, Any]

    @property
    def position(self) -> EventPosition:
        """The place that the cursor names."""
        return EventPosition.parse(self.cursor)
