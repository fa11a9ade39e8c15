"""`/health`, `/ready` and `/metrics`: whether the node is alive and can serve, and its figures."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from headrace import __version__
from headrace.frontends.http.auth import Authenticated
from headrace.frontends.http.context import node_of
from headrace.frontends.http.readiness import readiness_of
from headrace.frontends.rest.schemas import ResponseModel

router = APIRouter(tags=["health"])


class Health(ResponseModel):
    """State of the node."""

    status: str
    """`ok` or `ready`."""
    node_id: str
    """Id of the node."""
    version: str
    """Version of Headrace."""


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    response_description="The metrics.",
)
def read_metrics(request: Request, caller: Authenticated) -> Response:
    """Return the metrics of the node and of the store in Prometheus's text format."""
    return Response(
        generate_latest(node_of(request).metrics(caller)), media_type=CONTENT_TYPE_PLAIN_0_0_4
    )


@router.get("/health")
async def check_health(request: Request) -> Health:
    """Report that the process is alive, whatever the state of its store."""
    return Health(status="ok", node_id=node_of(request).id, version=__version__)


@router.get("/ready")
async def check_readiness(request: Request) -> Health:
    """Report whether the node can write to the store and its background tasks run.

    The status is 200, otherwise 503. While another process has locked the store, the response waits
    as long as a write does (`store.connect_timeout`).
    """
    node = node_of(request)
    await readiness_of(request).check()
    return Health(status="ready", node_id=node.id, version=__version__)
