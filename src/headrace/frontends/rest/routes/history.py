"""`/history`: delete old history by hand."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.frontends.http.api_route import ApiRoute, json_response
from headrace.frontends.http.auth import Authenticated
from headrace.frontends.http.context import node_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import PurgeBody, PurgeRequest

router = APIRouter(prefix="/history", tags=["history"], route_class=ApiRoute)


@router.post("/purge", response_model=PurgeBody, responses=problems(413, 415))
def purge_history(request: Request, caller: Authenticated, body: PurgeRequest) -> Response:
    """Delete what ended longer ago than a time, with its results and logs.

    Live objects stay, and what they need. A call ends after some seconds: repeat it while `more` is
    true.
    """
    history = node_of(request).history
    if body.dry_run:
        purge = history.count(body.older_than)
    else:
        purge = history.purge(caller, body.older_than)
    return json_response(
        PurgeBody(
            statements=purge.counts.get("statements", 0),
            results=purge.counts.get("results", 0),
            sessions=purge.counts.get("sessions", 0),
            streams=purge.counts.get("streams", 0),
            jobs=purge.counts.get("jobs", 0),
            deployments=purge.counts.get("deployments", 0),
            more=purge.more,
        )
    )
