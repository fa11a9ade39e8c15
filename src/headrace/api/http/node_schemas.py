"""Bodies of requests and responses about nodes."""

from __future__ import annotations

from typing import Literal

from headrace.api.http.schemas import Instant, RequestModel, ResponseModel
from headrace.model.lifecycle import NodeState


class NodeBody(ResponseModel):
    """A node."""

    id: str
    """Id of the node, stable across restarts."""
    address: str
    """URL at which drivers and other nodes reach the node."""
    version: str
    """Version of Headrace."""
    state: NodeState | str
    """State of the node."""
    profiles: list[str]
    """Profiles whose drivers the node can start."""
    backends: list[str]
    """Backends that the node can call."""
    host: str | None
    """Name of its host."""
    link_version: int
    """Version of the messages that it exchanges with drivers."""
    started_at: Instant
    """When the node started."""
    lease_until: Instant
    """The node is live until then, unless it renews its lease."""
    ended_at: Instant | None
    """When the node ended; null while it is live."""
    confirmed_gone_at: Instant | None
    """When an operator confirmed that the node and the drivers of its host have ended."""


class GoneRequestBody(RequestModel):
    """Body of `POST /nodes/{node_id}/gone`."""

    confirmed: Literal[True]
    """The operator confirms that the node and every driver on its host have ended."""


class NodePage(ResponseModel):
    """A page of nodes."""

    items: list[NodeBody]
    """The nodes."""
    next: str | None
    """Always null: the list is complete."""
