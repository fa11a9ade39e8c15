"""The pages of streaming queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.policy import Action, Caller, may, visible_owners
from headrace.control.streams.service import QueryStatus, StreamStanding
from headrace.errors import HeadraceError, StreamStateConflict
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.routes.streams import history_body, stream_body
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import (
    Copy,
    Question,
    ask,
    copy_object,
    is_confirmed,
    make_router,
    redirect,
    render,
    show_json,
)
from headrace.frontends.web.statement_pages import ALL, ITEMS
from headrace.grammar.masking import mask_urls
from headrace.model.lifecycle import StreamAction
from headrace.model.stream_history import HISTORY_MINUTES
from headrace.model.stream_query import Answer, QueryProgress, answer_action
from headrace.model.text import MAX_BIGINT

_BAR_HEIGHT = 40.0
_BATCHES = 60
"""Batches in the plots of batches."""
_FAST_MILLISECONDS = 100
_INTERRUPTIONS = 20
"""Times without a run that the page lists: the last."""

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
    """List streaming queries: the worst that have not ended, or all, newest first."""
    streams, is_all = node_of(request).streams, owner == ALL
    standings: list[StreamStanding] = []
    statuses: list[QueryStatus] = []
    if state == ALL:
        statuses = streams.page(
            caller, live=False, before=before, limit=ITEMS + 1, all_owners=is_all
        )
    else:
        standings = streams.list_worst(caller, limit=ITEMS + 1, all_owners=is_all)
    now = node_of(request).read_clock()
    rows: list[tuple[QueryStatus, StreamStanding | None]] = [
        *((each.status, each) for each in standings),
        *((each, None) for each in statuses),
    ]
    return render(
        request,
        "streams.html",
        caller=caller,
        now=now,
        rows=rows[:ITEMS],
        items=ITEMS,
        draw=draw_spark,
        is_cut=len(standings) > ITEMS,
        state=state,
        owner=owner,
        sees_others=visible_owners(caller) is None,
        before=before,
        next=statuses[ITEMS - 1].query.id if len(statuses) > ITEMS else None,
    )


SPARK_HEIGHT = 20


def draw_spark(rows: Sequence[int | None]) -> str:
    """Return the path of a small plot: a stroke for each minute with a batch, the largest highest.

    A minute without rows has a short stroke, and a minute without a batch none.
    """
    largest = max([1, *(each for each in rows if each is not None)])
    return "".join(
        f"M{x + 0.5} {SPARK_HEIGHT}V{SPARK_HEIGHT - 1 - (SPARK_HEIGHT - 1) * each // largest}"
        for x, each in enumerate(rows)
        if each is not None
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """A batch in a plot."""

    batch: int
    x: int
    height: float
    title: str
    is_slow: bool = False


@router.get("/streams/{stream}")
@router.get("/streams/{stream}/stop")
@router.get("/streams/{stream}/restart")
@router.get("/streams/{stream}/retry")
@router.get("/streams/{stream}/pause")
@router.get("/streams/{stream}/resume")
def render_stream(
    request: Request,
    caller: Authenticated,
    stream: StreamPath,
    batch: Annotated[int | None, Query(ge=0, le=MAX_BIGINT)] = None,
) -> Response:
    """Show a streaming query: why it does not run, its last hours, its batches, and its actions.

    Args:
        batch: Number of a batch whose measurements the page shows, while it is kept.
    """
    return _show_stream(request, caller, stream, batch)


def _show_stream(
    request: Request,
    caller: Caller,
    stream: str,
    batch: int | None = None,
    refusal: HeadraceError | None = None,
) -> Response:
    streams = node_of(request).streams
    status = streams.get(caller, stream)
    query, batches = status.query, status.progress[-_BATCHES:]
    acts = [each for each in StreamAction if answer_action(query, each) is Answer.ACTS]
    now = node_of(request).read_clock()
    # The numbers of the minutes stand outside the part that a refresh replaces.
    has_numbers = "hx-request" not in request.headers
    return render(
        request,
        "stream.html",
        caller=caller,
        refusal=refusal,
        status=status,
        query=query,
        now=now,
        actions=acts if may(caller, Action.CHANGE, query) else [],
        path=None if query.spec.path is None else mask_urls(query.spec.path),
        durations=draw_durations(batches),
        rows=draw_bars(batches, [each.input_rows for each in batches], "rows"),
        bar_height=_BAR_HEIGHT,
        picked=batch,
        picked_batch=next((each for each in status.progress if each.batch == batch), None),
        history=streams.read_history(caller, query.id, has_numbers=has_numbers),
        history_seconds=60 * HISTORY_MINUTES,
        interruptions=_INTERRUPTIONS,
        has_numbers=has_numbers,
        copies=[
            *copy_object(f"streams/{query.id}", f"headrace stream show {query.id}"),
            Copy("Python", f'headrace.connect().cursor().execute("SHOW STREAM `{query.id}`")'),
            Copy("History by CLI", f"headrace stream history {query.id}"),
        ],
    )


def draw_bars(batches: Sequence[QueryProgress], values: Sequence[int], unit: str) -> list[Bar]:
    """Return a bar for each batch. The largest value has the full height."""
    largest = max([1, *values])
    return [
        Bar(
            batch.batch,
            position,
            round(_BAR_HEIGHT * value / largest, 2),
            f"Batch {batch.batch} at {batch.at}: {value:,} {unit}",
        )
        for position, (batch, value) in enumerate(zip(batches, values, strict=True))
    ]


def draw_durations(batches: Sequence[QueryProgress]) -> list[Bar]:
    """Return the durations of batches as bars, with those marked that are slow beside the others.

    A batch is slow if it takes more than twice the median, and more than a tenth of a second.
    """
    values = [each.milliseconds for each in batches]
    limit = max(2 * median(values), _FAST_MILLISECONDS) if values else 0
    return [
        replace(bar, is_slow=value > limit)
        for bar, value in zip(draw_bars(batches, values, "ms"), values, strict=True)
    ]


@router.get("/streams/{stream}/history")
def show_history_as_json(request: Request, caller: Authenticated, stream: StreamPath) -> Response:
    """Show the last hours of a streaming query as the API does. The plots read it."""
    history = node_of(request).streams.read_history(caller, stream)
    return show_json(history_body(history), indent=None)


@router.get("/streams/{stream}/json")
def show_stream_as_json(request: Request, caller: Authenticated, stream: StreamPath) -> Response:
    """Show a streaming query as the API does."""
    return show_json(stream_body(node_of(request).streams.get(caller, stream)))


@router.post("/streams/{stream}/{action}")
async def act_from_page(
    request: Request, caller: Authenticated, stream: StreamPath, action: StreamAction
) -> Response:
    """Act on a streaming query, and show it, or the next attempt. Ask before a stop."""
    form = await read_form(request)
    streams = node_of(request).streams
    status = await run_in_threadpool(streams.get, caller, stream)
    question = Question(
        f"Stop the stream {status.query.qualified_name}?",
        ["Its query ends, and nothing starts it again but a restart, from its last checkpoint."],
        "Stop the stream",
        f"../{status.query.id}",
    )
    is_stop = action is StreamAction.STOP and answer_action(status.query, action) is Answer.ACTS
    if is_stop and not is_confirmed(form, question):
        return ask(request, caller, question)
    try:
        status = await run_in_threadpool(streams.act, caller, stream, action)
    except StreamStateConflict:
        # Another tab has acted before: the page shows the state.
        status = await run_in_threadpool(streams.get, caller, stream)
    except HeadraceError as error:
        return await run_in_threadpool(_show_stream, request, caller, stream, refusal=error)
    return redirect(f"../{status.query.id}")
