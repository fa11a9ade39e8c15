"""`/events`: the event log, as a list or as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import EventSourceResponse, ServerSentEvent

from headrace.api.context import node_of, waiters_of
from headrace.api.http.paging import Limit
from headrace.api.http.responses import json_response
from headrace.api.http.schemas import EventPage
from headrace.api.http.serializers import event_body
from headrace.api.waiting import Waiters
from headrace.model.event import Event
from headrace.store import events
from headrace.store.notifications import EVENTS

router = APIRouter(prefix="/events", tags=["events"])

_BATCH = 500
_CURSOR = r"^[0-9]{1,18}\.[0-9]{1,18}$"
_LOOK_AGAIN_SECONDS = 30.0


@router.get(
    "",
    response_model=EventPage,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events, oldest first."}},
)
async def list_events(
    request: Request,
    after: Annotated[str | None, Query(json_schema_extra={"pattern": _CURSOR})] = None,
    entity: Annotated[str | None, Query(description="statement, session or node")] = None,
    entity_id: str | None = None,
    limit: Limit = 100,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    last_event_id: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Response:
    """Changes of state in order; `next` goes into `after`. With `Accept: text/event-stream`,
    what has been and what comes, resumed by `Last-Event-ID`."""
    node = node_of(request)

    def read(since: str | None, count: int) -> list[Event]:
        with node.database.read() as tx:
            return events.read(tx, after=since, entity=entity, entity_id=entity_id, limit=count)

    if "text/event-stream" in accept:
        since = last_event_id or after
        first = await run_in_threadpool(read, since, _BATCH)
        return EventSourceResponse(_stream(waiters_of(request), read, since, first))
    found = await run_in_threadpool(read, after, limit + 1)
    items = found[:limit]
    following = items[-1].cursor if len(found) > limit else None
    return json_response(EventPage(items=[event_body(one) for one in items], next=following))


async def _stream(
    waiters: Waiters,
    read: Callable[[str | None, int], list[Event]],
    since: str | None,
    ready: list[Event],
) -> AsyncIterator[ServerSentEvent]:
    found: list[Event] | None = ready
    while not waiters.ending:
        for one in found or []:
            yield ServerSentEvent(
                data=event_body(one).model_dump_json(by_alias=True), event=one.entity, id=one.cursor
            )
            since = one.cursor

        async def look() -> list[Event] | None:
            return await run_in_threadpool(read, since, _BATCH) or None  # noqa: B023 - asked at once

        found = await waiters.until(EVENTS, look, seconds=_LOOK_AGAIN_SECONDS)
