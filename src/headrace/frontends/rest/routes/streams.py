"""`/streams`: the streaming queries that SAVE STREAM starts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from headrace.frontends.http.api_route import ApiRoute, Before, Limit, json_response, split_page
from headrace.frontends.http.auth import Authenticated
from headrace.frontends.http.context import node_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import StreamBody, StreamPage
from headrace.frontends.rest.serializers import stream_body
from headrace.model.stream_action import StreamAction

StreamRef = Annotated[
    str, Path(description="id of the query, its name, or `scope.name`", max_length=1024)
]

router = APIRouter(prefix="/streams", tags=["streams"], route_class=ApiRoute)


@router.get("", response_model=StreamPage)
def list_streams(
    request: Request,
    caller: Authenticated,
    live: Annotated[bool, Query(description="only queries that have not ended")] = False,
    before: Before = None,
    limit: Limit = 100,
) -> Response:
    """List streaming queries, newest first, each with its last batch."""
    found = node_of(request).streams.page(caller, live=live, before=before, limit=limit + 1)
    bodies, next_ = split_page([stream_body(status) for status in found], limit)
    return json_response(StreamPage(items=bodies, next=next_))


@router.get("/{stream}", response_model=StreamBody, responses=problems(404))
def show_stream(request: Request, caller: Authenticated, stream: StreamRef) -> Response:
    """Show one streaming query with its last hundred batches."""
    return json_response(stream_body(node_of(request).streams.get(caller, stream)))


@router.post(
    "/{stream}/{action}",
    status_code=202,
    response_model=StreamBody,
    responses=problems(404, 409, 429),
)
def act_on_stream(
    request: Request,
    caller: Authenticated,
    stream: StreamRef,
    action: Annotated[StreamAction, Path(description="what the driver is to do with the query")],
) -> Response:
    """Stop, pause, resume or restart a query, or end its backoff (retry).

    The answer shows the requested state; the driver works towards it. A restart of a query that has
    ended answers with the next attempt.
    """
    return json_response(stream_body(node_of(request).streams.act(caller, stream, action)), 202)
