"""`/sessions`: open, list, look, close, read the driver's log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse

from headrace.api.auth import OWNER
from headrace.api.context import node_of
from headrace.api.http.paging import Before, Limit, page_end
from headrace.api.http.problems import problems
from headrace.api.http.responses import json_response
from headrace.api.http.schemas import SessionBody, SessionPage, SessionRequest
from headrace.api.http.serializers import session_body
from headrace.api.http.strict_json import StrictRoute
from headrace.durations import seconds_of
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState
from headrace.model.session import NewSession, SessionKind
from headrace.store import sessions

router = APIRouter(prefix="/sessions", tags=["sessions"], route_class=StrictRoute)

_LOG_BYTES = 256 * 1024


@router.post("", status_code=201, response_model=SessionBody, responses=problems(409, 413, 415))
def open_session(request: Request, body: SessionRequest) -> Response:
    """Opens a session; a driver is started for it."""
    new = NewSession(
        id=new_id("se"),
        owner=OWNER,
        name=body.name,
        profile=body.profile,
        conf=body.conf,
        catalog=body.catalog,
        database=body.database,
        jars=body.jars,
        files=body.files,
        py_files=body.py_files,
        kind=SessionKind(body.kind),
        parallelism=body.parallelism,
        idle_seconds=seconds_of(body.idle_timeout),
        ttl_seconds=seconds_of(body.ttl),
    )
    session = node_of(request).sessions.open(new)
    return json_response(session_body(session), 201, {"Location": f"/api/v1/sessions/{session.id}"})


@router.get("", response_model=SessionPage)
def list_sessions(
    request: Request,
    state: Annotated[list[SessionState] | None, Query()] = None,
    before: Before = None,
    limit: Limit = 100,
) -> Response:
    """Sessions, newest first."""
    with node_of(request).database.read() as tx:
        found = sessions.page(tx, owner=OWNER, states=state, before=before, limit=limit + 1)
    items, following = page_end(found, limit)
    return json_response(SessionPage(items=[session_body(one) for one in items], next=following))


@router.get("/{session}", response_model=SessionBody, responses=problems(404))
def show_session(request: Request, session: str) -> Response:
    """One session, by id, or by name while it lives."""
    return json_response(session_body(node_of(request).sessions.get(OWNER, session)))


@router.delete("/{session}", status_code=202, response_model=SessionBody, responses=problems(404))
def close_session(request: Request, session: str) -> Response:
    """Closes a session: what waits or runs in it is cancelled, and its driver ends."""
    return json_response(session_body(node_of(request).sessions.close(OWNER, session)), 202)


@router.get("/{session}/log", response_class=PlainTextResponse, responses=problems(404))
def session_log(
    request: Request,
    session: str,
    tail: Annotated[int, Query(ge=1, le=16 * 1024 * 1024)] = _LOG_BYTES,
) -> Response:
    """The end of the driver's log, `tail` bytes at most; empty before the driver has started."""
    node = node_of(request)
    return PlainTextResponse(node.launches.log(node.sessions.get(OWNER, session).id, tail))
