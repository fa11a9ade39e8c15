"""`/sessions`: open, list, show, close, read the driver's log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse

from headrace.frontends.http.api_route import (
    AllOwners,
    ApiRoute,
    Before,
    IdPrefix,
    Limit,
    SessionRef,
    json_response,
    split_page,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import SessionBody, SessionPage, SessionRequest, read_fields
from headrace.frontends.rest.serializers import session_body
from headrace.model.lifecycle import SessionState
from headrace.model.request_fields import SessionFields
from headrace.model.session import SessionKind

router = APIRouter(prefix="/sessions", tags=["sessions"], route_class=ApiRoute)

_LOG_BYTES = 256 * 1024


@router.post(
    "", status_code=201, response_model=SessionBody, responses=problems(404, 409, 415, 429)
)
def open_session(request: Request, caller: Authenticated, body: SessionRequest) -> Response:
    """Open a session. A node then starts its driver."""
    session = node_of(request).sessions.open(
        caller,
        body.spec,
        owner=body.owner,
        like=body.like,
        name=body.name,
        kind=SessionKind(body.kind),
        parallelism=body.parallelism,
        fields=read_fields(body, SessionFields),
    )
    headers = {"Location": f"/api/v1/sessions/{session.id}"}
    return json_response(session_body(session), 201, headers)


@router.get("", response_model=SessionPage)
def list_sessions(
    request: Request,
    caller: Authenticated,
    state: Annotated[
        list[SessionState] | None, Query(description="only sessions in one of these states")
    ] = None,
    before: Before = None,
    id_prefix: IdPrefix = None,
    limit: Limit = 100,
    all_owners: AllOwners = False,
) -> Response:
    """List sessions, newest first."""
    sessions = node_of(request).sessions.page(
        caller,
        states=state,
        before=before,
        id_prefix=id_prefix,
        limit=limit + 1,
        all_owners=all_owners,
    )
    page, next_ = split_page(sessions, limit)
    return json_response(
        SessionPage(items=[session_body(item, in_list=True) for item in page], next=next_)
    )


@router.get("/{session}", response_model=SessionBody, responses=problems(404, 409))
def show_session(request: Request, caller: Authenticated, session: SessionRef) -> Response:
    """Show one session, by id, or by name while it is live."""
    return json_response(session_body(node_of(request).sessions.get(caller, session)))


@router.delete(
    "/{session}", status_code=202, response_model=SessionBody, responses=problems(404, 409, 429)
)
def close_session(request: Request, caller: Authenticated, session: SessionRef) -> Response:
    """Close a session: its statements are cancelled, and its driver ends."""
    return json_response(session_body(node_of(request).sessions.close(caller, session)), 202)


@router.get(
    "/{session}/log",
    response_class=PlainTextResponse,
    response_description="The end of the log. With the header `X-Headrace-Truncated: true`, the log"
    " has more before it.",
    responses=problems(404, 409),
)
async def read_session_log(
    request: Request,
    caller: Authenticated,
    session: SessionRef,
    tail: Annotated[
        int, Query(ge=1, le=16 * 1024 * 1024, description="largest number of bytes")
    ] = _LOG_BYTES,
    forward: Annotated[
        bool,
        Query(description="Whether the node that has launched the driver is asked for its log."),
    ] = True,
) -> Response:
    """Read the end of the driver's log. It is empty before the driver has started."""
    read = node_of(request).session_logs.read_async
    end = await read(caller, session, tail, forward=forward)
    headers = {"Content-Security-Policy": "sandbox"}
    if end.is_cut:
        headers["X-Headrace-Truncated"] = "true"
    return PlainTextResponse(end.text, headers=headers)
