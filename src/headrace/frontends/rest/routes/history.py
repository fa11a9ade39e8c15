"""`/history`: delete old history by hand."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import StrictBool

from headrace.frontends.http.api_route import ApiRoute, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import RequestModel, ResponseModel, has_examples
from headrace.text.durations import Duration


@has_examples({"older_than": "90d", "dry_run": True})
class PurgeRequest(RequestModel):
    """Body of `POST /history/purge`."""

    older_than: Duration
    """What ended longer ago than this is deleted. More than 0."""
    dry_run: StrictBool = False
    """Only count what would be deleted."""


@has_examples(
    {
        "statements": 1200,
        "results": 0,
        "sessions": 40,
        "streams": 3,
        "jobs": 0,
        "deployments": 2,
        "more": False,
    }
)
class PurgeBody(ResponseModel):
    """What a purge has deleted, or would delete."""

    statements: int
    """Ended statements, with their events and table transactions."""
    results: int
    """Results whose rows were deleted, also results that had expired anyway."""
    sessions: int
    """Ended sessions."""
    streams: int
    """Ended streaming queries."""
    jobs: int
    """Deleted jobs, with their versions."""
    deployments: int
    """Ended deployments."""
    more: bool
    """Whether the call is to be repeated, because its time was over."""


router = APIRouter(prefix="/history", tags=["history"], route_class=ApiRoute)


@router.post("/purge", response_model=PurgeBody, responses=problems(413, 415))
def purge_history(request: Request, caller: Authenticated, body: PurgeRequest) -> Response:
    """Delete what ended longer ago than a time, with its results and logs.

    Live objects stay, and what they need. A call ends after some seconds: repeat it while `more` is
    true.
    """
    history = node_of(request).history
    if body.dry_run:
        purge = history.count(caller, body.older_than)
    else:
        purge = history.purge(caller, body.older_than)
    counts = {name: purge.counts.get(name, 0) for name in PurgeBody.model_fields}
    return json_response(PurgeBody(**counts | {"more": purge.more}))
