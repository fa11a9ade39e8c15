"""A node: one server process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headrace.model.lifecycle import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node as the store holds it."""

    id: str
    address: str
    """URL at which drivers and other nodes reach the node, for example `http://10.0.0.4:8040`."""
    version: str
    state: NodeState
    started_at: datetime
    lease_until: datetime
    ended_at: datetime | None
