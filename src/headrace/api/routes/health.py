"""`/health` and `/ready`: whether the node is alive, and whether it can serve."""

from __future__ import annotations

from fastapi import APIRouter, Request

from headrace import __version__
from headrace.api.context import node_of
from headrace.api.http.problems import problems
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


@router.get("/health", responses=problems(403, 421))
async def check_health(request: Request) -> Health:
    """Report that the process is alive, whatever the state of its store."""
    return Health(status="ok", node_id=node_of(request).id, version=__version__)


@router.get("/ready", responses=problems(403, 421, 503))
def check_readiness(request: Request) -> Health:
    """Report whether the store answers and the background tasks run: 200, otherwise 503."""
    node = node_of(request)
    node.check_ready()
    return Health(status="ready", node_id=node.id, version=__version__)
