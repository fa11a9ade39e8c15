"""The first page, the files of pages, and the pages of sessions and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from headrace.control.policy import visible_owners
from headrace.frontends.http.api_route import NamedRoute
from headrace.frontends.http.auth import WEB_PREFIX, Authenticated, node_of
from headrace.frontends.web.rendering import find_root, redirect, render, serve_asset
from headrace.frontends.web.statement_pages import ALL, ITEMS
from headrace.model.lifecycle import SESSION, SessionState

router = APIRouter(prefix=WEB_PREFIX, route_class=NamedRoute, include_in_schema=False)


@router.get("")
@router.get("/")
def render_start(request: Request, caller: Authenticated) -> Response:  # noqa: ARG001 - signs in
    """Lead to the first page."""
    return redirect(f"{find_root(request.scope['path'])}statements")


@router.get("/assets/{name}")
def send_asset(name: str) -> Response:
    """Return a file that pages load."""
    return serve_asset(name)


@router.get("/sessions")
def render_sessions(
    request: Request,
    caller: Authenticated,
    state: str = "live",
    owner: str = "mine",
    before: Annotated[str | None, Query(pattern=r"^se_[0-9a-f]{32}$")] = None,
) -> Response:
    """List sessions, newest first."""
    chosen: Mapping[str, Sequence[SessionState] | None] = {
        **{each.value: [each] for each in SessionState},
        "live": [each for each in SessionState if each in SESSION.live],
        ALL: None,
    }
    state = state if state in chosen else "live"
    sessions = node_of(request).sessions.page(
        caller,
        states=chosen[state],
        before=before,
        id_prefix=None,
        limit=ITEMS + 1,
        all_owners=owner == ALL,
    )
    return render(
        request,
        "sessions.html",
        caller=caller,
        sessions=sessions[:ITEMS],
        states=["live", *SessionState],
        state=state,
        owner=owner,
        sees_others=visible_owners(caller) is None,
        before=before,
        next=sessions[ITEMS - 1].id if len(sessions) > ITEMS else None,
        now=node_of(request).read_clock(),
    )


@router.get("/nodes")
def render_nodes(request: Request, caller: Authenticated) -> Response:
    """List the nodes of the cluster."""
    nodes = node_of(request).nodes.list_nodes(caller)
    return render(
        request, "nodes.html", caller=caller, nodes=nodes, now=node_of(request).read_clock()
    )
