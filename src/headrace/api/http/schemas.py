"""What the native API takes and gives. Unknown fields are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainSerializer

from headrace.durations import Duration
from headrace.model.lifecycle import NodeState, SessionState, StatementState, TransactionState
from headrace.model.progress import Progress
from headrace.model.result import Disposition
from headrace.model.session import SessionKind
from headrace.model.statement import CancelReason, Parameter

LONGEST_WAIT = timedelta(seconds=60)


def rfc3339(instant: datetime) -> str:
    """An instant in UTC with microseconds, e.g. `2026-11-21T10:00:00.000000Z`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Instant = Annotated[datetime, PlainSerializer(rfc3339, return_type=str)]
PositiveInt = Annotated[int, Field(ge=1, le=2**63 - 1, strict=True)]
Conf = Annotated[
    dict[str, str],
    Field(json_schema_extra={"propertyNames": {"pattern": r"^(spark\.(?!headrace\.)|hive\.)"}}),
]


class RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SessionRequest(RequestModel):
    """`POST /sessions`."""

    name: str | None = Field(
        default=None, json_schema_extra={"pattern": "^[A-Za-z][A-Za-z0-9_.-]{0,99}$"}
    )
    conf: Conf = {}
    catalog: str | None = None
    database: str | None = None
    jars: list[str] = []
    files: list[str] = []
    py_files: list[str] = []
    profile: str = "default"
    kind: Literal["interactive", "batch", "streaming"] = "interactive"
    """Batch: its driver quits after one statement. Streaming: it stays while a stream runs."""
    parallelism: Annotated[int, Field(ge=1, le=64, strict=True)] = 1
    """How many of its queries run at once; anything but a query runs alone, in its turn."""
    idle_timeout: Duration | None = None
    """Closed after nothing has run in it for so long; default: the node's setting."""
    ttl: Duration | None = None
    """Closed so long after it was made, busy or not; default: the node's setting."""


class StatementRequest(RequestModel):
    """`POST /statements`."""

    statement: str = Field(examples=["SELECT 1 AS x"])
    session: str | None = None
    """Id or name; without one the statement gets a session of its own."""
    kind: Literal["interactive", "batch", "streaming"] = "interactive"
    """Batch and streaming: in a session of that kind, like the one named."""
    timeout: Duration | None = None
    """How long it may run."""
    queue_timeout: Duration | None = None
    """How long it may wait before it runs."""
    conf: Conf = {}
    parameters: list[Parameter] = []
    wait_timeout: Duration | None = None
    """How long to wait for its end, at most 60s."""
    on_wait_timeout: Literal["continue", "cancel"] = "continue"
    row_limit: PositiveInt | None = None
    byte_limit: PositiveInt | None = None
    result: Disposition = Disposition.AUTO
    location: str | None = None
    """A results location of its own."""


class ResponseModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class ErrorBody(ResponseModel):
    code: str
    message: str
    condition: str | None = None
    sqlstate: str | None = None
    line: int | None = None
    column: int | None = None
    trace: str | None = None


class ColumnModel(ResponseModel):
    name: str
    type: str


class ResultBody(ResponseModel):
    columns: list[ColumnModel] = Field(serialization_alias="schema")
    row_count: int
    byte_count: int
    chunks: int
    truncated: bool
    disposition: Disposition
    expires_at: Instant
    gone: bool


class StatementBody(ResponseModel):
    """A statement."""

    id: str
    session_id: str
    ordinal: int
    kind: SessionKind
    state: StatementState
    statement: str
    owner: str
    created_at: Instant
    launched_at: Instant | None
    started_at: Instant | None
    cancel_requested_at: Instant | None
    cancel_reason: CancelReason | None
    cancel_note: str | None
    ended_at: Instant | None
    attempts: int
    atomic: bool | None
    note: str | None
    progress: Progress | None
    error: ErrorBody | None
    result: ResultBody | None
    rows: list[list[JsonValue]] | None = None
    """In the answer to a submit that waited: all of them, or the first chunk, when they are few."""
    next_chunk: int | None = None


class SessionBody(ResponseModel):
    """A session."""

    id: str
    number: int
    name: str | None
    owner: str
    kind: SessionKind
    state: SessionState
    busy: bool
    profile: str
    conf: Conf
    catalog: str | None
    database: str | None
    jars: list[str]
    files: list[str]
    py_files: list[str]
    idle_seconds: float | None
    ttl_seconds: float | None
    parallelism: int
    streams: int
    epoch: int
    lost: list[str]
    """What could not be brought back when its driver was lost the last time."""
    driver: dict[str, Any] | None
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    last_update_time: Instant | None
    error: ErrorBody | None


class TransactionBody(ResponseModel):
    """A table that a CTAS creates whole or not at all."""

    id: str
    statement_id: str
    session_id: str
    """Whose driver has it, or had it last."""
    state: TransactionState
    catalog: str
    target: str
    left: bool
    """Whether nobody drives it any more: its statement has ended, and its driver is gone."""
    created_at: Instant
    ended_at: Instant | None


class TransactionPage(ResponseModel):
    items: list[TransactionBody]
    next: str | None


class NodeBody(ResponseModel):
    """A node."""

    id: str
    address: str
    version: str
    state: NodeState
    started_at: Instant
    ended_at: Instant | None


class EventBody(ResponseModel):
    """A change of state."""

    cursor: str
    entity: str
    entity_id: str
    source: str | None = Field(serialization_alias="from")
    target: str = Field(serialization_alias="to")
    at: Instant
    actor: str
    detail: dict[str, Any]


class StatementPage(ResponseModel):
    items: list[StatementBody]
    next: str | None


class SessionPage(ResponseModel):
    items: list[SessionBody]
    next: str | None


class NodePage(ResponseModel):
    items: list[NodeBody]
    next: str | None


class EventPage(ResponseModel):
    items: list[EventBody]
    next: str | None


class RowsBody(ResponseModel):
    """One chunk of a result."""

    columns: list[ColumnModel] = Field(serialization_alias="schema")
    rows: list[list[JsonValue]]
    chunk: int
    next_chunk: int | None
