"""`/nodes`: the nodes of the cluster."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.api.context import node_of
from headrace.api.http.responses import json_response
from headrace.api.http.schemas import NodePage
from headrace.api.http.serializers import node_body

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("", response_model=NodePage)
def list_nodes(request: Request) -> Response:
    """List every node that the store knows."""
    items = [node_body(node) for node in node_of(request).list_nodes()]
    return json_response(NodePage(items=items, next=None))
