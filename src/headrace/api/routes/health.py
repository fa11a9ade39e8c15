"""Whether the node lives, and whether it can serve."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel

from headrace import __version__
from headrace.api.context import node_of
from headrace.api.http.problems import problems

router = APIRouter(tags=["health"])


class Health(BaseModel):
    status: str
    node_id: str
    version: str


@router.get("/health")
async def health(request: Request) -> Health:
    """The process lives, whatever its store does."""
    return Health(status="ok", node_id=node_of(request).id, version=__version__)


@router.get("/ready", responses=problems(503))
def ready(request: Request) -> Health:
    """The store answers: 200, else 503."""
    node = node_of(request)
    node.database.ping()
    return Health(status="ready", node_id=node.id, version=__version__)
