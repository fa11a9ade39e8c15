"""`/nodes`: who serves."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.api.context import node_of
from headrace.api.http.responses import json_response
from headrace.api.http.schemas import NodePage
from headrace.api.http.serializers import node_body
from headrace.store import nodes

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("", response_model=NodePage)
def list_nodes(request: Request) -> Response:
    """Every node that the store knows."""
    with node_of(request).database.read() as tx:
        found = nodes.page(tx)
    return json_response(NodePage(items=[node_body(one) for one in found], next=None))
