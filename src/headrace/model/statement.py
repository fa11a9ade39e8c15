"""A statement: one SQL text with a lifecycle, an owner, and at most one result."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, JsonValue

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.request_fields import SubmitFields
from headrace.model.result import ResultInfo, ResultRequest
from headrace.model.session import SessionKind
from headrace.model.text import Count, FiniteJson


class Progress(BaseModel):
    """Sums over the Spark jobs that a statement has started so far.

    Skipped stages count as done. Adaptive execution starts jobs as it goes, so the totals grow.
    """

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    jobs: Count
    """Spark jobs started."""
    stages_done: Count
    """Stages that have ended."""
    stages_total: Count
    """Stages of the jobs started."""
    tasks_done: Count
    """Tasks that have ended."""
    tasks_total: Count
    """Tasks of the jobs started."""
    tasks_active: Count
    """Tasks that run now."""
    tasks_failed: Count
    """Failed attempts of tasks; Spark retries them."""
    rows_read: Count
    """Rows read from sources that count them."""
    bytes_read: Count
    """Bytes read from sources that count them. A second read of the same data counts again."""
    rows_written: Count
    """Rows written."""
    bytes_written: Count
    """Bytes written."""


MAX_PARAMETERS = 1000
"""Largest number of parameters of a statement."""


SAVE_STREAM = "SAVE STREAM"
CREATE_STREAM = "CREATE STREAM"
CREATE_SINK = "CREATE SINK"
CREATE_VIEW = "CREATE MATERIALIZED VIEW"
REFRESH_VIEW = "REFRESH MATERIALIZED VIEW"
JOB_TASK = "JOB TASK"
"""A task of a deployment. No text of a user begins with it."""
JOB_WRITE = "JOB WRITE"
"""A task of a deployment that writes where others read."""
RUN_FILE = "RUN FILE"
"""The file of a batch: the driver reads or runs it. No text of a user begins with it."""
WRITE_ROWS = "WRITE ROWS"
"""A statement of Spark's own that reads the rows of the code of a batch job."""
TASKS = frozenset({JOB_TASK, JOB_WRITE, RUN_FILE, WRITE_ROWS})
"""Statements that carry a task, see `JobTask`."""
RETRIED = frozenset({SAVE_STREAM, CREATE_STREAM, CREATE_SINK, CREATE_VIEW, REFRESH_VIEW})
"""Statements that another driver may run again: a query continues from its checkpoint, a definition
is stored with the success of its statement, and each run of a refresh writes a generation anew."""


class CancelReason(StrEnum):
    """Why a cancel was requested; it decides the state in which the statement ends."""

    REQUESTED = "requested"  # by a user
    TIMEOUT = "timeout"
    CLOSED = "closed"  # the session is closing


class StatementView(StrEnum):
    """Lists for operators, each in an order of its own."""

    WAITING = "waiting"  # statements in the state waiting, the longest wait first
    RUNNING = "running"  # statements in flight, the longest run first
    SLOW = "slow"  # ended statements that ran for long, the newest end first


class Parameter(BaseModel):
    """A value for a marker in the text: `:name` if it has a name, otherwise the next `?`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    value: FiniteJson = None
    """A JSON value; null is NULL. Bytes are `{"base64": "AP8="}`, with the type BINARY. An array
    may be nested."""
    name: str | None = None
    """Name of the marker, without the colon; null: the next `?`."""
    type: str | None = None
    """A Spark SQL type, for example `DECIMAL(10,2)`; default: the type of the JSON value."""


_SCALAR_TYPES = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "STRING"}


def array_type(array: list[JsonValue], scalar_type: str | None = None) -> str | None:
    """Return the Spark SQL type of a JSON array; None if all of its values are null.

    Args:
        array: Arrays may be nested to any depth.
        scalar_type: Type of the values; default: the one that follows from them.

    Raises ValueError, with a sentence, if the array has objects or values of several types.
    """
    depth = 1
    values: list[JsonValue] = [value for value in array if value is not None]
    while values and all(isinstance(value, list) for value in values):
        depth += 1
        values = [each for value in values if isinstance(value, list) for each in value]
        values = [value for value in values if value is not None]
    kinds = {type(value) for value in values}
    if dict in kinds:
        raise ValueError("The values of an array cannot be objects.")
    if list in kinds:
        raise ValueError("The values of an array must be all arrays, or all no arrays.")
    if not kinds:
        return None
    if scalar_type is None:
        types = {_SCALAR_TYPES[kind] for kind in kinds}
        if types == {"BIGINT", "DOUBLE"}:
            types = {"DOUBLE"}
        if len(types) > 1:
            raise ValueError(
                f"The values of an array without a type are {', '.join(sorted(types))}. Name the"
                " type, for example ARRAY<STRING>."
            )
        [scalar_type] = types
    return "ARRAY<" * depth + scalar_type + ">" * depth


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSpec(SubmitFields):
    """A statement as a caller submits it, without the session in which it runs."""

    text: str
    kind: SessionKind = SessionKind.INTERACTIVE
    parameters: list[Parameter] = field(default_factory=list)
    conf: dict[str, str] = field(default_factory=dict)
    """Spark configuration for this statement alone."""
    result_request: ResultRequest = ResultRequest()  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStatement:
    """A statement to be inserted into the store."""

    id: str
    session_id: str
    owner: str
    spec: StatementSpec
    is_query: bool = False
    """Whether the text is a pure query: safe to retry and to run beside other queries."""
    command: str | None = None
    """First words of a statement of Headrace's own, for example SAVE STREAM."""
    awaited_by: str | None = None
    """Process that waits for the end of the statement."""
    connection_id: str | None = None
    """Connection in whose Spark session it runs; None: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementEnd:
    """The end of a statement, with the times that metrics need."""

    kind: SessionKind
    outcome: StatementState
    code: str | None
    """Code of its error, as the driver has reported it."""
    created_at: datetime
    waiting_since: datetime
    launched_at: datetime | None
    started_at: datetime | None
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement as the store holds it."""

    id: str
    session_id: str
    ordinal: int
    """Position within the session, from 0."""
    owner: str
    state: StatementState
    spec: StatementSpec
    is_query: bool
    command: str | None
    """First words of a statement of Headrace's own, for example SAVE STREAM."""
    epoch: int | None
    """Epoch of the driver that claimed the statement."""
    attempts: int
    """Number of times that a driver has claimed the statement."""
    may_have_effects: bool
    """Whether this attempt may have changed something that no transaction can roll back."""
    created_at: datetime
    waiting_since: datetime
    """Last time at which the statement became `waiting`: at the submit, or for a retry."""
    launched_at: datetime | None
    started_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_reason: CancelReason | None
    cancel_forced: bool
    """Whether the cancel may kill a driver in which other work runs."""
    cancel_note: str | None
    """Why a requested cancel is not done yet."""
    ended_at: datetime | None
    atomic: bool | None
    """For a statement that has written rows: whether all of them appeared, or none."""
    note: str | None
    """A remark on a success, for example that the table already existed."""
    rows_written: int | None
    """Number of rows that the statement has written. None if it has written none, or if they were
    not counted."""
    progress: Progress | None
    """Progress of the statement: at most a second old while it runs, and complete after its end."""
    failure: Failure | None
    awaited_by: str | None
    """Process that waits for the end of the statement, or `*`: several wait."""
    connection_id: str | None
    """Connection in whose Spark session it runs; None: it has none."""
    result: ResultInfo | None

    @property
    def will_run_alone(self) -> bool:
        """Whether no other statement of its session may run beside it, unless that is a pool.

        A query whose driver was lost runs alone too: it may have ended the driver.
        """
        return not self.is_query or self.attempts > 0


class PendingHookCall(BaseModel):
    """A statement that ended without a driver; the hooks of the next driver are notified of it."""

    model_config = ConfigDict(frozen=True)

    statement_id: str
    text: str
    attempt: int
    state: StatementState
    failure: Failure | None


class WaitCode(StrEnum):
    """Kinds of reasons for which a statement waits."""

    SESSION_START = "session_start"  # the driver of its session is not up yet
    SESSION_RECOVERY = "session_recovery"  # the driver of its session was lost
    SESSION_CLOSING = "session_closing"  # the session ends, and cancels it
    CONNECTION = "connection"  # the statements of a connection run one after the other
    QUEUE = "queue"  # behind other waiting statements of its session
    EXCLUSIVE = "exclusive"  # it, or the statement before it, runs alone in its session
    PARALLELISM = "parallelism"  # its session runs as many statements as it may
    LIMIT = "limit"  # its user, or all users, run as many statements as they may
    DRIVER = "driver"  # nothing is before it: the driver takes it next
    WRITE_LOCK = "write_lock"  # another statement writes to its table
    TRANSACTION = "transaction"  # another statement publishes a table of the same name or location


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFor:
    """Why a statement waits."""

    code: WaitCode
    text: str
    """The reason as a sentence."""
    since: datetime | None
    """Since when this reason holds, as far as it is known."""
    statement_id: str | None = None
    """The statement that it waits for, if it is a single one."""
