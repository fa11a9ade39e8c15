"""`/streams`: the streaming queries that SAVE STREAM starts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.routing import Match
from starlette.types import Scope

from headrace.control.streams.history import StreamHistory
from headrace.control.streams.service import QueryStatus
from headrace.frontends.http.api_route import (
    AllOwners,
    ApiRoute,
    Before,
    Limit,
    json_response,
    split_page,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import (
    AT,
    LATER,
    QUERY_ID,
    SESSION_ID,
    STATEMENT_ID,
    STREAM_ID,
)
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import (
    ErrorBody,
    Instant,
    Json,
    MaskedMessage,
    MaskedText,
    ResponseModel,
    fill,
    has_examples,
    page_of,
)
from headrace.frontends.rest.serializers import error_body, show_reason
from headrace.model.lifecycle import StreamAction, StreamState
from headrace.model.reasons import ReasonCode
from headrace.model.stream_history import (
    HISTORY_MINUTES,
    BatchPart,
    InterruptionKind,
    MarkKind,
    QueryMinute,
)
from headrace.model.stream_query import EndReason, Wanted

StreamRef = Annotated[
    str, Path(description="id of the query, its name, or `scope.name`", max_length=1024)
]

_STREAM: Json = {
    "id": STREAM_ID,
    "scope": "adhoc",
    "name": "clicks",
    "owner": "ada",
    "state": "running",
    "reason": None,
    "reason_code": None,
    "wanted": "running",
    "session_id": SESSION_ID,
    "statement_id": STATEMENT_ID,
    "statement": "SAVE STREAM clicks TO lake",
    "sink": "parquet",
    "guarantee": "exactly once",
    "path": "file:/data/clicks",
    "checkpoint": "file:/data/checkpoints/adhoc/clicks",
    "attempt": 1,
    "previous_id": None,
    "failures": 0,
    "retry_at": None,
    "last_error": None,
    "run_id": QUERY_ID,
    "last_batch": 41,
    "created_at": AT,
    "started_at": LATER,
    "healthy_since": LATER,
    "ended_at": None,
    "end_reason": None,
    "progress": [
        {
            "batch": 41,
            "at": "2026-11-24T10:05:00.000Z",
            "input_rows": 500,
            "input_rate": 50.0,
            "process_rate": 800.5,
            "milliseconds": 625,
            "parts": {"add_batch": 510, "wal_commit": 40},
            "watermark": None,
            "late_rows": 0,
            "state_rows": 0,
            "state_bytes": 0,
            "lag": {},
        }
    ],
}


class BatchBody(ResponseModel):
    """A batch of a streaming query."""

    batch: int
    """Number of the batch, from 0."""
    at: str
    """Start of the batch, in Spark's format."""
    input_rows: int
    """Rows that the batch read."""
    input_rate: float
    """Rows per second that arrived."""
    process_rate: float
    """Rows per second that were processed."""
    milliseconds: int
    """Duration of the batch."""
    parts: dict[str, int]
    """Milliseconds of the parts of the batch, as far as Spark reports them."""
    watermark: str | None
    """Watermark of the batch, in Spark's format; null without one."""
    late_rows: int
    """Rows that operators with state have dropped, because they were later than the watermark."""
    state_rows: int
    """Rows in the state of the query."""
    state_bytes: int
    """Memory of the state of the query."""
    lag: dict[str, Any]
    """Records that are not read yet, by source, for the sources that tell."""


@has_examples(_STREAM)
class StreamBody(ResponseModel):
    """A streaming query: one attempt, with any number of runs."""

    id: str
    """Id of the query, which is that of this attempt."""
    scope: str
    """`adhoc`, or the name of the job."""
    name: str
    """Name within the scope."""
    owner: str
    """User who has started it."""
    state: StreamState | str
    """State of the query."""
    reason: MaskedMessage | None
    """Why it does not run, in words: in how long the next attempt is, and why the last one failed;
    null while it runs."""
    reason_code: ReasonCode | None
    """Kind of this reason."""
    wanted: Wanted | str
    """What its users want; its driver works towards that."""
    session_id: str
    """Id of the session in which it runs."""
    statement_id: str | None
    """SAVE STREAM statement that has started it; null for a restart."""
    statement: str
    """Its statement, without the secrets of its options."""
    sink: str
    """Provider of the sink."""
    guarantee: str | None
    """How often the rows of a batch can appear in the sink; null for a materialized view. `not
    checked` marks a provider that Headrace does not know."""
    path: MaskedText | None
    """Where a sink of files writes."""
    checkpoint: MaskedText | None
    """Location of its write-ahead log; null if it has none."""
    attempt: int
    """Number of the attempt, from 1."""
    previous_id: str | None
    """The attempt before this one."""
    failures: int
    """Successive failures."""
    retry_at: Instant | None
    """Time of the next start, while the query backs off."""
    last_error: ErrorBody | None
    """The last failure of the series."""
    run_id: str | None
    """Spark's id of the last run."""
    last_batch: int | None
    """Number of the last committed batch."""
    created_at: Instant
    """When the attempt was requested."""
    started_at: Instant | None
    """When its first run began."""
    healthy_since: Instant | None
    """Start of the current run; null while the query does not run."""
    ended_at: Instant | None
    """When the attempt ended."""
    end_reason: EndReason | str | None
    """Why it is stopped; null if it has failed or has not ended."""
    progress: list[BatchBody]
    """The last batches, oldest first; in a list, only the last one."""


@has_examples(page_of(_STREAM))
class StreamPage(ResponseModel):
    """A page of streaming queries."""

    items: list[StreamBody]
    """The queries, newest first."""
    next: str | None
    """The `before` of the next page; null on the last page."""


def stream_body(status: QueryStatus) -> StreamBody:
    """Return the body of a streaming query."""
    query, spec = status.query, status.query.spec
    return fill(
        StreamBody,
        query,
        **show_reason(status.reason),
        statement=status.statement,
        sink=spec.sink,
        guarantee=spec.guarantee,
        path=spec.path,
        checkpoint=spec.checkpoint,
        last_error=error_body(query.last_error),
        end_reason=query.end_reason if query.state is StreamState.STOPPED else None,
        progress=[BatchBody(**batch.model_dump()) for batch in status.progress],
    )


_HISTORY: Json = {
    "id": STREAM_ID,
    "name": "clicks",
    "scope": "adhoc",
    "began_at": AT,
    "read_at": LATER,
    "minutes": [
        {
            "at": AT,
            "batches": 6,
            "input_rows": 3000,
            "input_rate": 50.0,
            "process_rate": 800.5,
            "milliseconds": 3748,
            "slowest_milliseconds": 702,
            "parts": {
                "latest_offset": 60,
                "get_batch": 12,
                "query_planning": 90,
                "wal_commit": 240,
                "add_batch": 3060,
                "commit_offsets": 200,
            },
            "watermark_gap_seconds": 61.5,
            "backlog": 120,
            "state_rows": 900,
            "state_bytes": 400_000,
        }
    ],
    "interruptions": [
        {"kind": "driver_down", "began_at": AT, "ended_at": LATER, "cause": "driver_lost"}
    ],
    "attempts": [
        {
            "id": STREAM_ID,
            "attempt": 1,
            "state": "running",
            "cause": None,
            "created_at": AT,
            "started_at": LATER,
            "ended_at": None,
        }
    ],
    "marks": [{"kind": "run", "at": LATER, "text": "restart"}],
}


class MinuteBody(ResponseModel):
    """The batches of a streaming query that were reported within a minute."""

    at: Instant
    """Begin of the minute, on the clock of the store."""
    batches: int
    """Number of the batches."""
    input_rows: int
    """Rows that they read."""
    input_rate: float
    """Rows per second of the minute, as far as it has passed."""
    process_rate: float
    """Rows per second of the time in which batches ran."""
    milliseconds: int
    """Duration of all batches together."""
    slowest_milliseconds: int
    """Duration of the slowest batch."""
    parts: dict[BatchPart, int]
    """Milliseconds of all batches together, by part."""
    watermark_gap_seconds: float | None
    """Largest time by which the watermark was behind the start of a batch; null without one."""
    backlog: int | None
    """Largest number of records that the sources had not read; null if no source says so."""
    state_rows: int
    """Rows in the state of the query, after the last batch."""
    state_bytes: int
    """Memory of that state."""


class InterruptionBody(ResponseModel):
    """A time in which a streaming query did not run."""

    kind: InterruptionKind
    """Why it did not run."""
    began_at: Instant
    """When it began, as a node noticed it."""
    ended_at: Instant | None
    """When it ended; null: the query does not run now."""
    cause: str | None
    """What is known about the cause."""


class AttemptBody(ResponseModel):
    """An attempt of a streaming query."""

    id: str
    """Id of the attempt."""
    attempt: int
    """Its number, from 1."""
    state: StreamState | str
    """Its state."""
    cause: str | None
    """Why it does not run; null while it runs."""
    created_at: Instant
    """When it was requested."""
    started_at: Instant | None
    """When its first run began."""
    ended_at: Instant | None
    """When it ended."""


class MarkBody(ResponseModel):
    """A moment from which a streaming query may have behaved in another way."""

    kind: MarkKind
    """What began."""
    at: Instant
    """When it began."""
    text: str
    """The same for a reader."""


@has_examples(_HISTORY)
class StreamHistoryBody(ResponseModel):
    """The last hours of a streaming query, of all its attempts together."""

    id: str
    """Id of the query."""
    name: str
    """Name within the scope."""
    scope: str
    """`adhoc`, or the name of the job."""
    began_at: Instant
    """Begin of the first minute."""
    read_at: Instant
    """Time of the store."""
    minutes: list[MinuteBody]
    """Minutes in which a batch was reported, oldest first."""
    interruptions: list[InterruptionBody]
    """The last 200 times in which the query did not run, oldest first."""
    attempts: list[AttemptBody]
    """The last 50 attempts, newest first."""
    marks: list[MarkBody]
    """The last 200 begins of attempts, runs and versions of the job, oldest first."""


def history_body(history: StreamHistory) -> StreamHistoryBody:
    """Return the body of the history of a streaming query."""
    return StreamHistoryBody(
        id=history.query.id,
        name=history.query.name,
        scope=history.query.scope,
        began_at=history.began_at,
        read_at=history.now,
        minutes=[_minute_body(minute, history.now) for minute in history.minutes],
        interruptions=[fill(InterruptionBody, each) for each in history.interruptions],
        attempts=[fill(AttemptBody, each.query, cause=each.cause) for each in history.attempts],
        marks=[fill(MarkBody, each) for each in history.marks],
    )


def _minute_body(minute: QueryMinute, now: datetime) -> MinuteBody:
    gap = minute.watermark_gap
    return fill(
        MinuteBody,
        minute,
        input_rate=round(minute.input_rows / minute.count_seconds(now), 3),
        process_rate=round(1000 * minute.input_rows / max(1, minute.milliseconds), 3),
        watermark_gap_seconds=None if gap is None else gap / 1000,
    )


HistoryLength = Annotated[
    int, Query(ge=1, le=HISTORY_MINUTES, description="number of the last minutes")
]

router = APIRouter(prefix="/streams", tags=["streams"], route_class=ApiRoute)


@router.get("", response_model=StreamPage)
def list_streams(
    request: Request,
    caller: Authenticated,
    live: Annotated[bool, Query(description="only queries that have not ended")] = False,
    before: Before = None,
    limit: Limit = 100,
    all_owners: AllOwners = False,
) -> Response:
    """List streaming queries, newest first, each with its last batch."""
    found = node_of(request).streams.page(
        caller, live=live, before=before, limit=limit + 1, all_owners=all_owners
    )
    bodies, next_ = split_page([stream_body(status) for status in found], limit)
    return json_response(StreamPage(items=bodies, next=next_))


@router.get("/{stream}", response_model=StreamBody, responses=problems(404, 409))
def show_stream(request: Request, caller: Authenticated, stream: StreamRef) -> Response:
    """Show one streaming query with its last hundred batches."""
    return json_response(stream_body(node_of(request).streams.get(caller, stream)))


@router.get("/{stream}/history", response_model=StreamHistoryBody, responses=problems(404, 409))
def show_stream_history(
    request: Request,
    caller: Authenticated,
    stream: StreamRef,
    minutes: HistoryLength = HISTORY_MINUTES,
) -> Response:
    """Show the last hours of a streaming query, minute by minute, and when it did not run.

    The query is followed over its attempts. What is kept survives its driver and its node.
    """
    history = node_of(request).streams.read_history(caller, stream, minutes)
    return json_response(history_body(history))


class ActionRoute(ApiRoute):
    """A route whose last segment is an action, and not the name of another route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path of a request. The history has no POST, as the document of the API says."""
        match, child = super().matches(scope)
        if child.get("path_params", {}).get("action") == "history":
            return Match.NONE, {}
        return match, child


_actions = APIRouter(route_class=ActionRoute)


@_actions.post(
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


router.include_router(_actions)
