"""`/nodes`: the nodes of the cluster."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from headrace.frontends.http.api_route import ApiRoute, json_response
from headrace.frontends.http.auth import Authenticated
from headrace.frontends.http.context import node_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import GoneRequestBody, NodeBody, NodePage
from headrace.frontends.rest.serializers import node_body

router = APIRouter(prefix="/nodes", tags=["nodes"], route_class=ApiRoute)

NodeRef = Annotated[str, Path(max_length=100, description="Id of the node.")]


@router.get("", response_model=NodePage)
def list_nodes(request: Request) -> Response:
    """List every node that the store knows."""
    items = [node_body(node) for node in node_of(request).nodes.list_nodes()]
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
