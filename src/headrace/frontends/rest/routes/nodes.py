"""`/nodes`: the nodes of the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request, Response

from headrace.frontends.http.api_route import ApiRoute, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT, NODE_ID
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import (
    Instant,
    Json,
    RequestModel,
    ResponseModel,
    fill,
    has_examples,
    page_of,
)
from headrace.model.lifecycle import NodeState
from headrace.model.node import NodeRecord

_NODE: Json = {
    "id": NODE_ID,
    "address": "http://127.0.0.1:8040",
    "version": "0.1.0",
    "state": "up",
    "profiles": ["default"],
    "backends": ["local"],
    "host": "node-1",
    "link_version": 1,
    "started_at": AT,
    "lease_until": "2026-11-24T10:00:15.000000Z",
    "ended_at": None,
    "confirmed_gone_at": None,
}


@has_examples(_NODE)
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


@has_examples({"confirmed": True})
class GoneRequestBody(RequestModel):
    """Body of `POST /nodes/{node_id}/gone`."""

    confirmed: Literal[True]
    """The operator confirms that the node and every driver on its host have ended."""


@has_examples(page_of(_NODE))
class NodePage(ResponseModel):
    """A page of nodes."""

    items: list[NodeBody]
    """The nodes."""
    next: str | None
    """Always null: the list is complete."""


def node_body(node: NodeRecord) -> NodeBody:
    """Return the body of a node."""
    return fill(NodeBody, node, host=None if node.host is None else node.host.get("name"))


router = APIRouter(prefix="/nodes", tags=["nodes"], route_class=ApiRoute)

NodeRef = Annotated[str, Path(max_length=100, description="Id of the node.")]


@router.get("", response_model=NodePage)
def list_nodes(request: Request, caller: Authenticated) -> Response:
    """List every node that the store knows."""
    items = [node_body(node) for node in node_of(request).nodes.list_nodes(caller)]
    return json_response(NodePage(items=items, next=None))


@router.post(
    "/{node_id}/drain", status_code=202, response_model=NodeBody, responses=problems(404, 409)
)
def drain_node(request: Request, caller: Authenticated, node_id: NodeRef) -> Response:
    """Ask a node to leave: it begins nothing new, hands its work over, and stops."""
    return json_response(node_body(node_of(request).nodes.drain(caller, node_id)), 202)


@router.post("/{node_id}/gone", response_model=NodeBody, responses=problems(404, 409, 415))
def confirm_node_gone(
    request: Request, caller: Authenticated, node_id: NodeRef, body: GoneRequestBody
) -> Response:
    """Confirm that a lost node, and every driver on its host, have ended."""
    assert body.confirmed
    return json_response(node_body(node_of(request).nodes.confirm_gone(caller, node_id)))
