"""`/metrics`, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from headrace.api.context import node_of

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    response_description="The metrics.",
)
def read_metrics(request: Request) -> Response:
    """Return the metrics of the node and of the store in Prometheus's text format."""
    return Response(generate_latest(node_of(request).metrics), media_type=CONTENT_TYPE_PLAIN_0_0_4)
