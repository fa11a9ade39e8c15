"""Bodies of requests and responses of the native API. Requests with unknown fields are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    WithJsonSchema,
    create_model,
)

from headrace.grammar.masking import mask_text, mask_urls
from headrace.model.execution import (
    SparkOperator,
    SparkStage,
)
from headrace.model.headrace_options import CONF_OPTIONS
from headrace.model.lifecycle import (
    EntityKind,
    SessionState,
    StatementState,
)
from headrace.model.reasons import ReasonCode
from headrace.model.request_fields import FieldKind, SessionFields, SubmitFields, describe_fields
from headrace.model.result import Disposition, GoneReason, ResultRequest
from headrace.model.session import SessionKind, SessionSpec
from headrace.model.statement import CancelReason, Parameter, Progress, WaitCode
from headrace.text.durations import Duration, limit_duration
from headrace.text.readable import format_utc

LONGEST_WAIT = timedelta(seconds=60)
MAX_INTEGER = 2**53 - 1
"""Largest integer of a request. Every program that reads JSON keeps it exactly (RFC 7493)."""


def _read_integer(value: object) -> object:
    """Return a number without a fraction, such as 10.0 or 1e3, as an integer, as JSON Schema does.

    A larger float may have lost digits. It stays a float, which is refused.
    """
    is_integral = isinstance(value, float) and value.is_integer() and abs(value) <= MAX_INTEGER
    return int(value) if is_integral else value  # type: ignore[call-overload]


def integer(minimum: int, maximum: int = MAX_INTEGER) -> Any:
    """Return the type of an integer in a body. The JSON Schema has the same limits."""
    return Annotated[
        int, Field(ge=minimum, le=maximum, strict=True), BeforeValidator(_read_integer)
    ]


Instant = Annotated[
    datetime,
    PlainSerializer(format_utc, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
if TYPE_CHECKING:
    PositiveInt = int
    Parallelism = int
    WaitTimeout = timedelta
else:
    PositiveInt = integer(1)
    Parallelism = integer(1, 64)
    WaitTimeout = limit_duration(LONGEST_WAIT)
MaskedText = Annotated[str, AfterValidator(mask_urls)]
MaskedMessage = Annotated[str, AfterValidator(mask_text)]
"""A text in which the node hides the passwords of URLs."""
_OWN_KEYS = "|".join(map(re.escape, CONF_OPTIONS))
Conf = Annotated[
    dict[str, str],
    Field(
        json_schema_extra={
            "propertyNames": {
                "pattern": rf"^(spark\.(?!headrace\.|pstl\.retry\.)|hive\.|({_OWN_KEYS})$)"
            }
        }
    ),
]
RequestKind = Literal["interactive", "batch", "streaming"]


class RequestModel(BaseModel):
    """Base of request bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ResponseModel(BaseModel):
    """Base of response bodies.

    Values of enums may be other texts, too: those of a newer node that shares the store.
    """

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


Model = TypeVar("Model", bound=BaseModel)
T = TypeVar("T")
Json = dict[str, Any]
EXAMPLES: dict[str, list[Json]] = {}
"""Examples in the OpenAPI document, by the name of their body. Readers see the first one."""


def has_examples(*examples: Json) -> Callable[[type[Model]], type[Model]]:
    """Give a body examples. A test compares them with its schema."""

    def note(model: type[Model]) -> type[Model]:
        EXAMPLES[model.__name__] = [*examples]
        return model

    return note


def page_of(item: Json, following: str | None = None) -> Json:
    """Return the example of a page with one item."""
    return {"items": [item], "next": following}


def fill(body: type[Model], record: object, **computed: Any) -> Model:
    """Return a body whose fields are the attributes of a record with the same names.

    Args:
        computed: Values of the fields that are no such attributes.
    """
    names = body.model_fields.keys() - computed.keys()
    return body(**{name: getattr(record, name) for name in names}, **computed)


_FIELD_TYPES: dict[FieldKind, Any] = {
    FieldKind.DURATION: Duration,
    FieldKind.COUNT: PositiveInt,
    FieldKind.TEXT: str,
}


def takes(description: type[Any]) -> Callable[[type[Model]], type[Model]]:
    """Add the described fields to the body of a request, after its own."""
    return _add_fields(
        {
            field.key: (
                _FIELD_TYPES[field.kind] | None,
                Field(default=None, description=field.request_text),
            )
            for field in describe_fields(description).values()
        }
    )


def shows(description: type[Any]) -> Callable[[type[Model]], type[Model]]:
    """Add the described fields to the body of a response, after its own."""
    return _add_fields(
        {
            field.key: (_FIELD_TYPES[field.kind] | None, Field(description=field.response_text))
            for field in describe_fields(description).values()
        }
    )


def _add_fields(fields: dict[str, Any]) -> Callable[[type[Model]], type[Model]]:
    def extend(model: type[Model]) -> type[Model]:
        name, module, text = model.__name__, model.__module__, model.__doc__
        return create_model(name, __base__=model, __module__=module, __doc__=text, **fields)

    return extend


def read_fields(body: BaseModel, description: type[T]) -> T:
    """Return the described fields of a request."""
    values = {}
    for name, field in describe_fields(description).items():
        value = getattr(body, field.key)
        values[name] = value.total_seconds() if isinstance(value, timedelta) else value
    return description(**values)


def show_fields(record: object, description: type[Any]) -> dict[str, Any]:
    """Return the described fields of a record, for the body of a response."""
    values = {}
    for name, field in describe_fields(description).items():
        value = getattr(record, name)
        is_duration = field.kind is FieldKind.DURATION and value is not None
        values[field.key] = timedelta(seconds=value) if is_duration else value
    return values


@takes(SessionFields)
class ConfiguredSession(RequestModel, SessionSpec):
    """A session to be created, configured by the request."""

    owner: str | None = None
    """Owner of the session: the caller, or `group:NAME` for a group of the caller. Default: the
    caller."""
    conf: Conf = {}
    """Spark configuration and options of Headrace for this session."""
    name: str | None = Field(
        default=None, json_schema_extra={"pattern": "^[A-Za-z][A-Za-z0-9_.-]{0,99}$"}
    )
    """Name, unique among the owner's live sessions."""
    kind: RequestKind = "interactive"
    """`batch`: the driver quits after one statement; `streaming`: it stays while a stream runs."""
    parallelism: Parallelism | None = None
    """Largest number of queries that run at once; default: `sessions.parallelism`. Any other
    statement runs alone, in its turn, and so does a query whose driver was lost."""


class SessionRequest(ConfiguredSession):
    """Body of `POST /sessions`."""

    like: str | None = None
    """Id or name of a session whose profile, configuration, catalog, database and files the new
    session gets, secrets included. The request then names none of these."""

    @property
    def spec(self) -> SessionSpec:
        """The fields that configure the driver."""
        return SessionSpec(**{name: getattr(self, name) for name in SessionSpec.model_fields})


class ParameterBody(Parameter):
    """A value for a marker in the text: `:name` if it has a name, otherwise the next `?`."""

    model_config = ConfigDict(extra="forbid")


@takes(SubmitFields)
class SubmittedStatement(RequestModel):
    """A statement, where it runs, and its limits."""

    statement: str = Field(examples=["SELECT 1 AS x"])
    """The SQL text of one statement."""
    owner: str | None = None
    """Owner of the statement: the caller, or `group:NAME` for a group of the caller. Default: the
    owner of the session, otherwise the caller."""
    session: str | None = None
    """Id or name of a session. Without it, an interactive statement or a refresh of a view runs in
    the pool session of its owner, in a Spark session of its own."""
    connection: str | None = None
    """Id of a connection, in place of a session. The statement runs in the Spark session of the
    connection, after the earlier statements of it."""
    kind: RequestKind = "interactive"
    """`batch` and `streaming` run in a session of that kind, configured like the named one. `batch`
    gives a refresh of a view a driver of its own."""


class StatementRequest(SubmittedStatement):
    """Body of `POST /statements`."""

    conf: Conf = {}
    """Spark configuration and options of Headrace for this statement alone."""
    parameters: list[ParameterBody] = []
    """Values for the markers `:name` or `?` in the text, at most 1000."""
    wait_timeout: WaitTimeout | None = None
    """How long the response waits for the end of the statement."""
    on_wait_timeout: Literal["continue", "cancel"] = "continue"
    """What happens to a statement that has not ended by then."""
    row_limit: PositiveInt | None = None
    """Largest number of rows of the result."""
    byte_limit: PositiveInt | None = None
    """Largest number of bytes of the result."""
    result: Disposition = Disposition.AUTO
    """Where the rows of the result are kept."""
    result_location: str | None = None
    """A results location for this result alone."""

    @property
    def result_request(self) -> ResultRequest:
        """The fields that concern the result."""
        return ResultRequest(
            disposition=self.result,
            row_limit=self.row_limit,
            byte_limit=self.byte_limit,
            location=self.result_location,
        )


class ErrorBody(ResponseModel):
    """Why a statement or session failed."""

    code: str
    """Stable code of the error."""
    message: MaskedMessage
    """What happened."""
    condition: str | None = None
    """Spark's error condition, for example TABLE_OR_VIEW_NOT_FOUND."""
    sqlstate: str | None = None
    """SQLSTATE of the error, if it has one."""
    line: int | None = None
    """Line in the text of the statement, counted from 1."""
    column: int | None = None
    """Column in the text of the statement, counted from 1, in code points."""
    trace: MaskedMessage | None = None
    """Stack trace, with `trace=true` only."""


class ColumnBody(ResponseModel):
    """A column of a result."""

    name: str
    """Name of the column. Names may repeat."""
    type: str
    """Spark SQL type."""


class FlightBody(ResponseModel):
    """Where a client of Arrow Flight reads a result directly from the driver that holds it."""

    location: str
    """Location of the Flight server, for example `grpc://10.0.0.5:40123`."""
    ticket: str
    """Ticket of `DoGet`."""
    token: str
    """Send it in the header `authorization`, as `Bearer <token>`. It opens this result alone."""


class ResultBody(ResponseModel):
    """A result without its rows."""

    columns: list[ColumnBody] = Field(serialization_alias="schema")
    """The columns, in order."""
    row_count: int
    """Number of rows. For INSERT and CREATE TABLE AS, which return no rows: the rows written."""
    rows_written: int | None = None
    """Rows that the statement has written; null if it writes none, or if Spark does not count."""
    byte_count: int
    """Bytes of Arrow record batches."""
    chunks: int
    """Number of chunks, at least 1."""
    truncated: bool
    """Whether a limit cut off rows."""
    time_zone: str | None = None
    """`spark.sql.session.timeZone`, if the result has timestamps. JSON has them in UTC."""
    disposition: Disposition | str
    """Where the rows are kept."""
    expires_at: Instant
    """When the rows are deleted."""
    gone: bool
    """Whether the rows have been deleted."""
    gone_reason: GoneReason | None
    """Why the rows are gone."""
    flight: FlightBody | None = None
    """In the response for one statement, if a driver holds the rows and the client reaches it."""


class WaitingBody(ResponseModel):
    """What a statement waits for."""

    code: WaitCode
    """Kind of the reason."""
    text: str
    """The reason as a sentence, for users."""
    since: Instant | None
    """Since when this reason holds, if that is known."""
    statement_id: str | None
    """The statement that it waits for, if it is a single one."""


class StatementBody(ResponseModel):
    """A statement."""

    id: str
    """Id of the statement."""
    session_id: str
    """Id of the session in which it runs."""
    session_name: str | None = None
    """In a list: the name of the session; null if it has none."""
    ordinal: int
    """Position within the session, from 0."""
    kind: SessionKind | str
    """Kind of session that it needs."""
    state: StatementState | str
    """State of the statement."""
    statement: str
    """The SQL text."""
    owner: str
    """User who has submitted it."""
    created_at: Instant
    """When it was submitted."""
    waiting_since: Instant
    """Since when it waits, or waited last: its submit, or the begin of its last retry."""
    launched_at: Instant | None
    """When a driver claimed it."""
    started_at: Instant | None
    """When it began to run."""
    cancel_requested_at: Instant | None
    """When a cancel was requested."""
    cancel_reason: CancelReason | str | None
    """Why a cancel was requested."""
    cancel_note: str | None
    """Why a requested cancel is not done yet."""
    ended_at: Instant | None
    """When it ended."""
    attempts: int
    """Number of times that a driver has claimed it."""
    queue_position: int | None = None
    """In the response for one statement and in the list of waiting ones: its position among the
    waiting statements of its session, from 1; null if it does not wait."""
    waiting_for: WaitingBody | None = None
    """In the response for one statement and in the lists of waiting and running ones: why it waits;
    null if it waits for nothing."""
    reason: MaskedMessage | None = None
    """Why it has not ended, or has not succeeded, as a sentence; null for a success. Where
    `waiting_for` is missing, also for a statement that waits."""
    reason_code: ReasonCode | None = None
    """Kind of this reason."""
    atomic: bool | None
    """For a statement that has written rows: whether all of them appeared, or none."""
    note: str | None
    """A remark on a success."""
    progress: Progress | None
    """Counts of Spark, at most a second old while the statement runs."""
    error: ErrorBody | None
    """Why it failed."""
    result: ResultBody | None
    """Its result, without the rows; null unless it has succeeded."""
    rows: list[list[JsonValue]] | None = None
    """In the response to a submit that waited: the first chunk of a small result."""
    next_chunk: int | None = None
    """Number of the next chunk, if `rows` does not hold all rows."""


class StageBody(SparkStage):
    """One attempt to run a stage of Spark. The numbers are sums over its tasks."""

    started_at: Instant | None
    """When Spark submitted the stage, on the clock of the driver."""
    ended_at: Instant | None
    """When the stage ended, on the clock of the driver."""
    failure: MaskedMessage | None
    """Beginning of the reason for which the stage failed."""


class OperatorBody(SparkOperator):
    """A node of the physical plan, with its metrics."""

    name: MaskedMessage
    """Name of the operator."""


class ExecutionBody(ResponseModel):
    """The plan and the stages of a statement."""

    plan: MaskedMessage | None
    """The physical plan as EXPLAIN FORMATTED shows it, after its adaptive changes, at most 64 Ki
    characters; a longer text ends with `… [cut]`. Several plans follow one another. Null if no
    DataFrame has run."""
    operators: list[OperatorBody]
    """The operators of the plan, each before its inputs; at most 500."""
    operators_omitted: int
    """Number of further operators."""
    stages: list[StageBody]
    """Stages by id and attempt; at most 200: those that have failed, then those with the longest
    run time. Stages that Spark has skipped are not listed."""
    stages_omitted: int
    """Number of further stages."""
    tasks_active: int | None
    """Tasks that still ran when the driver reported: a task that a cancel kills runs until it
    notices. Null if the driver has not counted them."""


@shows(SessionFields)
class SessionIdentity(ResponseModel, SessionSpec):
    """What a session is, and its state."""

    conf: Conf = {}
    """Spark configuration and options of Headrace for this session, with secrets redacted."""
    id: str
    """Id of the session."""
    number: int
    """Serial number, never reused."""
    name: str | None
    """Name of the session, if it has one."""
    owner: str
    """User who has opened the session."""
    kind: SessionKind | str
    """What its driver does."""
    state: SessionState | str
    """State of the session."""
    busy: bool
    """Whether a statement of the session has not ended."""


class SessionBody(SessionIdentity):
    """A session."""

    parallelism: int
    """Largest number of queries that run at once."""
    pool: bool
    """Whether it runs the statements of its owner that name no session."""
    warm: bool
    """Whether it keeps a driver ready for a session of the profile, and has no owner yet."""
    streams: int
    """Number of streaming queries that run in the driver."""
    epoch: int
    """Raised by every launch and every takeover."""
    lost: list[str]
    """State that could not be restored after the last loss of the driver."""
    driver: dict[str, Any] | None
    """What the driver reported: pid, Spark version, application id, UI address."""
    created_at: Instant
    """When the session was opened."""
    started_at: Instant | None
    """When its first driver reported that it is up."""
    ended_at: Instant | None
    """When the session ended."""
    last_update_time: Instant | None
    """Last launch, start report or lease renewal of the driver."""
    error: ErrorBody | None
    """Why the session failed."""


class StatementPage(ResponseModel):
    """A page of statements."""

    items: list[StatementBody]
    """The statements, newest first."""
    next: str | None
    """The `before` of the next page; null on the last page."""


class SessionPage(ResponseModel):
    """A page of sessions."""

    items: list[SessionBody]
    """The sessions, newest first."""
    next: str | None
    """The `before` of the next page; null on the last page."""


class RowsBody(ResponseModel):
    """One chunk, or a range of the rows, of a result."""

    columns: list[ColumnBody] = Field(serialization_alias="schema")
    """The columns, in order."""
    rows: list[list[JsonValue]]
    """The values of each row, in the order of the columns."""
    chunk: int | None = None
    """Number of the chunk; absent for a range of rows."""
    next_chunk: int | None = None
    """Number of the next chunk; null after the last one, absent for a range of rows."""
    offset: int | None = None
    """Position of the first row, from 0; absent for a chunk."""
    next_offset: int | None = None
    """`offset` of the rows that follow; null at the end, absent for a chunk."""


def _list_kinds() -> str:
    """Return the kinds of entities as a list in words."""
    *kinds, last = [f"`{kind}`" for kind in EntityKind]
    return f"{', '.join(kinds)} or {last}"


class EventBody(ResponseModel):
    """A change of state."""

    cursor: str
    """Position in the log, for `after`."""
    entity: str = Field(description=f"{_list_kinds()}.")
    entity_id: str
    """Id of the entity."""
    source: str | None = Field(serialization_alias="from")
    """State before the change; null for a new entity."""
    target: str = Field(serialization_alias="to")
    """State after the change."""
    at: Instant
    """When the change was made."""
    actor: str
    """Who made the change: an owner, a node id, or `driver:<session>:<epoch>`."""
    detail: dict[str, Any]
    """Further facts about the change, for example a reason."""


class EventPage(ResponseModel):
    """A page of events."""

    items: list[EventBody]
    """The events, oldest first."""
    next: str | None
    """The `after` of the next request; null if no other event exists."""
