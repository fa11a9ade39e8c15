"""A node: one server process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.model.lifecycle import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node as the store holds it."""

    id: str
    address: str
    """URL at which drivers and other nodes reach the node, for example `http://10.0.0.4:8040`."""
    version: str
    state: NodeState
    profiles: list[str]
    """Profiles whose drivers the node can start."""
    backends: list[str]
    """Backends that the node can call."""
    started_at: datetime
    present_since: datetime
    """Last time at which the node came back: from a restart, a freeze or an outage of the store."""
    lease_until: datetime
    ended_at: datetime | None
    host: dict[str, Any] | None
    """Identity of its host; None: a version before 0.1 has registered it."""
    link_version: int
    """Version of the messages that it exchanges with drivers."""
    confirmed_gone_at: datetime | None
    """When an operator confirmed that the node and the drivers of its host have ended."""
