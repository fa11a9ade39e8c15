"""`/health` and `/ready`: whether the node is alive, and whether it can serve."""

from __future__ import annotations

from fastapi import APIRouter, Request

from headrace import __version__
from headrace.api.context import node_of, readiness_of
from headrace.api.http.schemas import ResponseModel

router = APIRouter(tags=["health"])


class Health(ResponseModel):
    """State of the node."""

    status: str
    """`ok` or `ready`."""
    node_id: str
    """Id of the node."""
    version: str
    """Version of Headrace."""


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
