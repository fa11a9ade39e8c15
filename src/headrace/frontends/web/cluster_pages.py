"""The first page, what pages load and follow, and the page of the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

from fastapi import Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import EventSourceResponse

from headrace.frontends.http.auth import QUIET_SECONDS, Authenticated, node_of
from headrace.frontends.rest.event_feed import EventFilter, event_feed_of
from headrace.frontends.web.rendering import find_root, make_router, redirect, render, serve_asset

_STREAM_SECONDS = 60.0
"""Life of a stream of events. The browser then connects again, and its sign-in is checked again."""

router = make_router()


@router.get("")
@router.get("/")
def render_start(request: Request, caller: Authenticated) -> Response:  # noqa: ARG001 - signs in
    """Lead to the first page."""
    return redirect(f"{find_root(request.scope['path'])}statements")


@router.get("/assets/{name}")
def send_asset(name: str) -> Response:
    """Return a file that pages load."""
    return serve_asset(name)


@router.get("/events")
async def stream_events(
    request: Request, caller: Authenticated, last_event_id: Annotated[str | None, Header()] = None
) -> Response:
    """Send the events that follow, for the pages of a browser that are open."""
    events = node_of(request).events
    cursor = last_event_id or await run_in_threadpool(events.last, caller)
    feed = event_feed_of(request)
    stream = await feed.open(cursor, EventFilter(owners=events.visible_owners(caller)))
    content = _end_after(feed.follow(stream), _STREAM_SECONDS)
    return EventSourceResponse(content, ping=QUIET_SECONDS, headers={"Cache-Control": "no-store"})


async def _end_after(parts: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Yield parts for a time."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    with suppress(TimeoutError, StopAsyncIteration):
        while True:
            yield await asyncio.wait_for(anext(parts), until - clock())


@router.get("/nodes")
def render_nodes(request: Request, caller: Authenticated) -> Response:
    """List the nodes of the cluster."""
    nodes = node_of(request).nodes.list_nodes(caller)
    return render(
        request, "nodes.html", caller=caller, nodes=nodes, now=node_of(request).read_clock()
    )
