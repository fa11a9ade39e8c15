"""A streaming query: what SAVE STREAM declares, what is known about its runs, and its actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from headrace.model.expectation import Expectation, ExpectationCounts
from headrace.model.failure import Failure
from headrace.model.job import JobRows
from headrace.model.lifecycle import STREAM, IntentState, StreamAction, StreamState
from headrace.model.lineage import StreamLineage
from headrace.model.materialized_view import (
    AUTO_REFRESH_SINK,
    MaterializedViewId,
    NameScope,
    ViewRows,
)
from headrace.model.session import SessionView
from headrace.model.stream_providers import find_sink
from headrace.model.text import Count, JsonObject, Name, SmallCount

ADHOC_SCOPE = "adhoc"
"""Scope of the queries and definitions outside any job."""

QueryId = Annotated[str, StringConstraints(pattern=r"^sq_[0-9a-f]{32}$")]


class Wanted(StrEnum):
    """What the users of a query want of it. The driver works towards that."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    RESTARTED = "restarted"  # stopped, then begun again as the next attempt


class EndReason(StrEnum):
    """Why a query is `stopped`. A failed query has a failure instead."""

    SOURCES_ENDED = "sources_ended"
    STOPPED = "user_stopped"
    RESTARTED = "user_restarted"
    JOB_CHANGED = "job_changed"
    VIEW_DROPPED = "view_dropped"
    SESSION_CLOSED = "session_closed"
    SESSION_ENDED = "session_ended"
    STATEMENT_ENDED = "statement_ended"
    NOT_REPORTED = "not_reported"


_END_TEXTS: dict[str, str] = {
    EndReason.SOURCES_ENDED: "its sources have ended",
    EndReason.STOPPED: "stopped by a user",
    EndReason.RESTARTED: "restarted by a user",
    EndReason.JOB_CHANGED: "its job was stopped or changed",
    EndReason.VIEW_DROPPED: "its materialized view was dropped",
    EndReason.SESSION_CLOSED: "its session was closed",
    EndReason.SESSION_ENDED: "its session has ended",
    EndReason.STATEMENT_ENDED: "the statement that was to start it has not succeeded",
    EndReason.NOT_REPORTED: "its driver did not report why it ended",
}


def describe_end(reason: str) -> dict[str, str]:
    """Return the detail of the event of an end, or of its request.

    Args:
        reason: An EndReason, or the code of one that only a newer node knows.
    """
    return {"code": str(reason), "reason": _END_TEXTS.get(reason, reason)}


CLAIMED_REASONS = frozenset({EndReason.SOURCES_ENDED})
"""Reasons that a driver can claim. The store knows all others itself."""


class RefreshedView(BaseModel):
    """A materialized view, as the query that refreshes it needs it."""

    model_config = ConfigDict(frozen=True)

    id: MaterializedViewId
    rows: ViewRows
    interval_seconds: float | None = None
    """Time between two refreshes; None: after each batch of new rows."""
    grace_seconds: float
    """Time for which a replaced generation stays."""
    expectations: list[Expectation] = []


class QuerySpec(BaseModel):
    """A streaming query as its statement declares it, complete: no later change affects it."""

    model_config = ConfigDict(frozen=True)

    text: str
    """The statement: SAVE STREAM, or CREATE MATERIALIZED VIEW."""
    definitions: list[str] = []
    """The CREATE STREAM and CREATE SINK statements that it needs, each after those it needs."""
    sink: str
    """Name of the provider that it writes to."""
    path: str | None = None
    """Where a sink of files writes."""
    checkpoint: str | None = None
    """Location of the write-ahead log; None: the query has none."""
    views: list[SessionView] = []
    """Temporary views that the query reads, each after those it reads. They may read streams."""
    conf: dict[str, str] = {}
    """Configuration of the statement alone, for every run."""
    scope: NameScope | None = None
    """Catalog and namespace of the first start, in which every run resolves names; None before."""
    view: RefreshedView | None = None
    """The materialized view that the query refreshes."""
    rows: JobRows | None = None
    """Where the rows come from, for a query of a job."""

    @property
    def expectations(self) -> list[Expectation]:
        """The expectations on the rows that the query writes."""
        source = self.rows or self.view
        return [] if source is None else source.expectations

    @property
    def guarantee(self) -> str | None:
        """How often the rows of a batch can appear in the sink; None for a materialized view."""
        return None if self.sink == AUTO_REFRESH_SINK else find_sink(self.sink).promise


class QueryProgress(BaseModel):
    """Measurements of one batch."""

    model_config = ConfigDict(frozen=True)

    batch: Count
    at: Name
    """Start of the batch, as Spark writes it: RFC 3339, milliseconds, UTC."""
    input_rows: Count
    input_rate: float = Field(ge=0, le=1e15)
    """Rows per second that arrived."""
    process_rate: float = Field(ge=0, le=1e15)
    """Rows per second that were processed."""
    milliseconds: Count
    """Duration of the batch."""
    parts: Annotated[dict[Name, Count], Field(max_length=20)] = {}
    """Milliseconds of the parts of the batch (`BatchPart`), as far as Spark reports them."""
    watermark: Name | None = None
    late_rows: Count = 0
    """Rows that operators with state have dropped, because they were later than the watermark."""
    state_rows: Count = 0
    state_bytes: Count = 0
    lag: JsonObject = {}
    """Rows or records that are not read yet, by source, for the sources that tell."""
    expectation_counts: ExpectationCounts | None = None
    """What was counted for the expectations of the query; None also if it is not known."""


class QueryReport(BaseModel):
    """What a driver reports about one query. A node checks it against the lifecycle."""

    model_config = ConfigDict(frozen=True)

    id: QueryId
    generation: SmallCount
    """Generation of the desired state that the driver has acted on."""
    sequence: SmallCount | None = None
    """Number of what is reported, from 1. It grows with each change, for all queries of a driver
    together. None: a driver of the version before does not number its reports."""
    state: StreamState
    run_id: Name | None = None
    failures: SmallCount = 0
    """Successive failures."""
    delay_seconds: float | None = Field(default=None, ge=0, le=1e10)
    """Backoff after the last failure."""
    retry_seconds: float | None = Field(default=None, ge=0, le=1e10)
    """Time until the next start, if the query backs off."""
    last_batch: Count | None = None
    """Number of the last committed batch."""
    error: Failure | None = None
    """The last failure of the series."""
    reason: EndReason | None = None
    """Why the query is `stopped`, if no user has requested that."""
    progress: Annotated[list[QueryProgress], Field(max_length=100)] = []
    """Batches that were not reported yet, oldest first."""
    lineage: StreamLineage = []
    """What the query reads and writes, in the first report of it; later empty."""


class DesiredQuery(BaseModel):
    """A query that a driver must run, or stop."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    job_id: str
    """Name of the job, or `adhoc-<owner>`."""
    spec: QuerySpec
    wanted: Wanted
    generation: int
    held: bool = False
    """Whether its statement will start it, so that the driver waits for that."""
    failures: int = 0
    retry_seconds: float | None = None
    """Remainder of the backoff that the previous driver began; None: start at once."""
    last_batch: int | None = None


class DesiredQueries(BaseModel):
    """All queries of a session that have not ended. The driver stops any other query."""

    model_config = ConfigDict(frozen=True)

    generation: int
    """Raised by every change of the desired state of any of them."""
    queries: list[DesiredQuery]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredQuery:
    """A live query with the measurements of its newest batch, for metrics."""

    id: str
    owner: str
    scope: str
    name: str
    state: StreamState
    failures: int
    """Successive failures."""
    progress: QueryProgress | None
    """None if no batch is measured yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSink:
    """The sink of an ended query in which lost drivers may have left staged rows."""

    query_id: str
    scope: str
    name: str
    session_id: str
    """Session of the query."""
    state: IntentState
    attempts: int
    """Attempts of drivers to remove the rows."""
    last_error: str | None
    """Why the last attempt failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStreamQuery:
    """A streaming query to be inserted into the store."""

    id: str
    owner: str
    scope: str
    name: str
    spec: QuerySpec
    session_id: str
    checkpoint_place: str | None
    """Identity of the place of `spec.checkpoint`. The store compares only this text."""
    statement_id: str | None
    """Statement that starts the query; None for a query that is restarted."""
    attempt: int = 1
    previous_id: str | None = None
    """The attempt before this one."""
    last_batch: int | None = None
    """Last committed batch of that attempt."""


WORST_FIRST = (
    StreamState.FAILED,
    StreamState.BACKING_OFF,
    StreamState.STARTING,
    StreamState.STOPPING,
    StreamState.RUNNING,
    StreamState.PAUSED,
    StreamState.STOPPED,
)
"""Order of states in lists of the worst queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAttempt:
    """What is known about an attempt of a streaming query without its statement."""

    id: str
    state: StreamState
    wanted: Wanted
    attempt: int
    failures: int
    """Successive failures."""
    retry_at: datetime | None
    """Time of the next start, while the query backs off."""
    last_error: Failure | None
    created_at: datetime
    started_at: datetime | None
    """Start of the first run."""
    ended_at: datetime | None
    end_reason: EndReason | None
    """Why the query is `stopped`, or will be when its driver has stopped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamQuery(QueryAttempt):
    """A streaming query as the store holds it: one attempt, with any number of runs."""

    owner: str
    scope: str
    name: str
    """Unique among the owner's live queries of the scope, whatever its case."""
    spec: QuerySpec
    checkpoint_place: str | None
    """See `NewStreamQuery`."""
    generation: int
    """Raised by every change of the desired state."""
    session_id: str
    statement_id: str | None
    previous_id: str | None
    run_id: str | None
    """Id of Spark's last run of the query."""
    last_batch: int | None
    """Number of the last committed batch."""
    healthy_since: datetime | None
    """Start of the current run; None while the query does not run."""
    report_epoch: int | None
    """Epoch of the driver whose report was applied last."""
    report_sequence: int | None
    """Number of that report."""

    @property
    def qualified_name(self) -> str:
        return f"{self.scope}.{self.name}"

    @property
    def view_name(self) -> str | None:
        """Complete name of the materialized view that it refreshes, or None."""
        return None if self.spec.view is None else ".".join(self.spec.view.rows.path)

    @property
    def has_run(self) -> bool:
        """Whether Spark runs the query, according to the last report of its driver."""
        is_stopping = self.state is StreamState.STOPPING and self.healthy_since is not None
        return self.state is StreamState.RUNNING or is_stopping


class StreamRunStep(StrEnum):
    """A step of a run of a streaming query. Each start of the query in Spark is a run."""

    STARTED = "started"
    TABLES_REPORTED = "tables_reported"
    FINISHED = "finished"  # its sources have ended
    STOPPED = "stopped"
    FAILED = "failed"  # or lost with its driver


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRunChange:
    """A run of a streaming query, and the step that a transaction stores for it."""

    query: StreamQuery
    run_id: str
    """Id of the run in Spark, as the driver has reported it."""
    step: StreamRunStep
    failure: Failure | None = None
    """Why the run has failed; None for the other steps."""


class DefinitionKind(StrEnum):
    """What a definition describes."""

    STREAM = "stream"
    SINK = "sink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A definition. Its name, in any case, is unique among the live ones of its kind and scope."""

    owner: str
    scope: str
    kind: DefinitionKind
    name: str
    text: str
    """The complete statement."""
    created_at: datetime | None = None


class Answer(StrEnum):
    """What an action does in a state. docs/guides/streams.md has the same table.

    An action acts, or it is *in force*: the same action was requested before and its effect is not
    complete. Both are successes. Otherwise the action is a conflict.
    """

    ACTS = "acts"
    IN_FORCE = "in force"
    CONFLICT = "conflict"


_ACTING_STATES: Mapping[StreamAction, frozenset[StreamState]] = {
    StreamAction.STOP: STREAM.started | {StreamState.PAUSED},
    StreamAction.PAUSE: STREAM.started,
    StreamAction.RESUME: frozenset({StreamState.PAUSED}),
    StreamAction.RESTART: STREAM.started | {StreamState.PAUSED} | STREAM.terminal,
    StreamAction.RETRY: frozenset({StreamState.BACKING_OFF}),
}
"""States other than `stopping` in which an action acts."""
_ACTING_WISHES: Mapping[StreamAction, frozenset[Wanted]] = {
    StreamAction.STOP: frozenset({Wanted.RUNNING, Wanted.PAUSED, Wanted.RESTARTED}),
    StreamAction.PAUSE: frozenset({Wanted.RUNNING}),
    StreamAction.RESUME: frozenset({Wanted.PAUSED}),
    StreamAction.RESTART: frozenset({Wanted.RUNNING, Wanted.PAUSED, Wanted.STOPPED}),
    StreamAction.RETRY: frozenset(),
}
"""For a query that is `stopping`: what it was to become, if an action acts."""
_EFFECTS: Mapping[StreamAction, Wanted | None] = {
    StreamAction.STOP: Wanted.STOPPED,
    StreamAction.PAUSE: Wanted.PAUSED,
    StreamAction.RESUME: Wanted.RUNNING,
    StreamAction.RESTART: Wanted.RESTARTED,
    StreamAction.RETRY: None,
}
_USER_REASONS = {None, EndReason.STOPPED, EndReason.RESTARTED}
_PARTICIPLES = {
    StreamAction.STOP: "stopped",
    StreamAction.PAUSE: "paused",
    StreamAction.RESUME: "resumed",
    StreamAction.RESTART: "restarted",
    StreamAction.RETRY: "retried",
}


def answer_action(query: StreamQuery, action: StreamAction) -> Answer:
    """Return what an action does to a query."""
    if query.state is not StreamState.STOPPING:
        return Answer.ACTS if query.state in _ACTING_STATES[action] else Answer.CONFLICT
    if query.wanted is _EFFECTS[action]:
        return Answer.IN_FORCE
    # The end of a session, a job or a view cannot be taken back.
    is_taken_back = query.wanted in _ACTING_WISHES[action] and query.end_reason in _USER_REASONS
    return Answer.ACTS if is_taken_back else Answer.CONFLICT


def describe_conflict(query: StreamQuery, action: StreamAction) -> str:
    """Return why an action cannot act on a query."""
    state = str(query.state)
    if query.end_reason is not None and query.state in {StreamState.STOPPED, StreamState.STOPPING}:
        state = f"{state} ({describe_end(query.end_reason)['reason']})"
    elif query.state is StreamState.STOPPING:
        state = f"{state}, to be {query.wanted}"
    return f"The query {query.qualified_name} cannot be {_PARTICIPLES[action]}: it is {state}."


def suggest_action(query: StreamQuery) -> str:
    """Return which action acts on a query in its state."""
    name = f"`{query.name}`"
    if query.state in STREAM.terminal:
        return f"RESTART STREAM {name} begins its next attempt, from its checkpoint if it has one."
    if query.state is StreamState.PAUSED:
        return f"RESUME STREAM {name} continues it, STOP STREAM {name} ends it."
    if query.state is StreamState.BACKING_OFF:
        return f"RETRY STREAM {name} starts it now, STOP STREAM {name} ends it."
    if query.state is StreamState.STOPPING:
        return f"Wait until SHOW STREAM {name} shows that it is not stopping any more."
    return f"PAUSE STREAM {name} stops it until it is resumed, STOP STREAM {name} ends it."
