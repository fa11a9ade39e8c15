"""The pages of streaming queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.policy import Action, may, visible_owners
from headrace.errors import StreamStateConflict
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import make_router, redirect, render
from headrace.frontends.web.statement_pages import ALL, ITEMS
from headrace.grammar.masking import mask_urls
from headrace.model.lifecycle import StreamAction
from headrace.model.stream_query import Answer, QueryProgress, answer_action

_BAR_HEIGHT = 40.0

router = make_router()

StreamPath = Annotated[str, Path(max_length=1024)]


@router.get("/streams")
def render_streams(
    request: Request,
    caller: Authenticated,
    state: str = "live",
    owner: str = "mine",
    before: Annotated[str | None, Query(pattern=r"^sq_[0-9a-f]{32}$")] = None,
) -> Response:
    """List streaming queries, newest first."""
    statuses = node_of(request).streams.page(
        caller,
        live=state != ALL,
        before=before,
        limit=ITEMS + 1,
        all_owners=owner == ALL,
    )
    return render(
        request,
        "streams.html",
        caller=caller,
        rows=statuses[:ITEMS],
        state=state,
        owner=owner,
        sees_others=visible_owners(caller) is None,
        before=before,
        next=statuses[ITEMS - 1].query.id if len(statuses) > ITEMS else None,
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """A batch in a plot."""

    x: int
    height: float
    title: str


@router.get("/streams/{stream}")
def render_stream(request: Request, caller: Authenticated, stream: StreamPath) -> Response:
    """Show a streaming query: why it does not run, its batches, and what may be done to it."""
    status = node_of(request).streams.get(caller, stream)
    query = status.query
    acts = [each for each in StreamAction if answer_action(query, each) is Answer.ACTS]
    return render(
        request,
        "stream.html",
        caller=caller,
        status=status,
        query=query,
        actions=acts if may(caller, Action.CHANGE, query) else [],
        path=None if query.spec.path is None else mask_urls(query.spec.path),
        durations=draw_bars(status.progress, [each.milliseconds for each in status.progress], "ms"),
        rows=draw_bars(status.progress, [each.input_rows for each in status.progress], "rows"),
        bar_height=_BAR_HEIGHT,
    )


def draw_bars(batches: Sequence[QueryProgress], values: Sequence[int], unit: str) -> list[Bar]:
    """Return a bar for each batch. The largest value has the full height."""
    largest = max([1, *values])
    return [
        Bar(
            position,
            round(_BAR_HEIGHT * value / largest, 2),
            f"Batch {batch.batch} at {batch.at}: {value:,} {unit}",
        )
        for position, (batch, value) in enumerate(zip(batches, values, strict=True))
    ]


@router.post("/streams/{stream}/{action}")
async def act_from_page(
    request: Request, caller: Authenticated, stream: StreamPath, action: StreamAction
) -> Response:
    """Act on a streaming query, and show it, or the next attempt."""
    await read_form(request)
    act = node_of(request).streams.act
    try:
        status = await run_in_threadpool(act, caller, stream, action)
    except StreamStateConflict:
        # Another tab has acted before: the page shows the state.
        status = await run_in_threadpool(node_of(request).streams.get, caller, stream)
    return redirect(f"../{status.query.id}")
