"""`/events`: the event log, as a list or as server-sent events."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import EventSourceResponse

from headrace.frontends.http.api_route import ApiRoute, Limit, json_response
from headrace.frontends.http.auth import QUIET_SECONDS, Authenticated, node_of
from headrace.frontends.rest.event_feed import EventFilter, event_feed_of
from headrace.frontends.rest.schemas import EventPage
from headrace.frontends.rest.serializers import event_body
from headrace.model.lifecycle import EntityKind

router = APIRouter(prefix="/events", tags=["events"], route_class=ApiRoute)

_CURSOR = r"^(now|[0-9]{1,9}\.[0-9]{1,18}\.[0-9]{1,18})$"
_NOW = "now"


@router.get(
    "",
    response_model=EventPage,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events, oldest first."}},
)
async def list_events(
    request: Request,
    caller: Authenticated,
    after: Annotated[
        str | None,
        Query(
            json_schema_extra={"pattern": _CURSOR},
            description="the `next` of the previous page; `now`: only events that follow",
        ),
    ] = None,
    entity: Annotated[
        EntityKind | None, Query(description="only events of entities of this kind")
    ] = None,
    entity_id: Annotated[str | None, Query(description="only events of this entity")] = None,
    limit: Limit = 100,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    last_event_id: Annotated[
        str | None,
        Header(description="in a stream: the `id` of the last event received, in place of `after`"),
    ] = None,
) -> Response:
    """List changes of state in order.

    With `Accept: text/event-stream`, the response continues with new events. `Last-Event-ID`, which
    browsers send when they connect again, resumes a stream. With `after=now`, a stream begins with
    the events that follow; a list is empty, and its `next` begins at this moment.
    """
    node = node_of(request)
    is_stream = "text/event-stream" in accept
    cursor = (last_event_id if is_stream else None) or after
    if cursor == _NOW:
        cursor = await run_in_threadpool(node.events.last, caller)

    kind = None if entity is None else str(entity)
    if is_stream:
        feed = event_feed_of(request)
        stream = await feed.open(
            cursor, EventFilter(kind, entity_id, node.events.visible_owners(caller))
        )
        return EventSourceResponse(feed.follow(stream), ping=QUIET_SECONDS)
    read = partial(node.events.read, caller, entity=kind, entity_id=entity_id)
    events = await run_in_threadpool(read, after=cursor, limit=limit + 1)
    page = events[:limit]
    next_ = page[-1].cursor if len(events) > limit else None
    if after == _NOW and next_ is None:
        next_ = page[-1].cursor if page else cursor
    return json_response(EventPage(items=[event_body(event) for event in page], next=next_))
