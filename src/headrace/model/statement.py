"""A statement: one SQL text with a lifecycle, an owner, and at most one result."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, JsonValue

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.progress import Progress
from headrace.model.result import Disposition, ResultInfo
from headrace.model.session import SessionKind


class CancelReason(StrEnum):
    """Why a cancel was asked for; it decides how the statement ends."""

    ASKED = "asked"
    TIMEOUT = "timeout"
    CLOSED = "closed"  # its session is ending


class Parameter(BaseModel):
    """A value for a marker in the text: `:name` when named, `?` in order when not."""

    # NaN is no JSON, and PostgreSQL would refuse to store it.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    value: JsonValue = None
    name: str | None = None
    type: str | None = None
    """A Spark SQL type, e.g. `DECIMAL(10,2)`; without one the JSON value's own type holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStatement:
    """What a submit writes."""

    id: str
    session_id: str
    owner: str
    text: str
    kind: SessionKind = SessionKind.INTERACTIVE
    is_query: bool = False
    """Whether it can change nothing, so that it may be run again and beside others."""
    parameters: list[Parameter] = field(default_factory=list)
    conf: dict[str, str] = field(default_factory=dict)
    """Spark configuration for this statement alone."""
    disposition: Disposition = Disposition.AUTO
    row_limit: int | None = None
    byte_limit: int | None = None
    location: str | None = None
    """A results location of its own."""
    timeout_seconds: float | None = None
    """How long it may run; None: as long as it takes."""
    queue_seconds: float | None = None
    """How long it may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement as the store holds it."""

    id: str
    session_id: str
    ordinal: int
    """Its place within its session, from 0."""
    owner: str
    kind: SessionKind
    state: StatementState
    text: str
    is_query: bool
    parameters: list[Parameter]
    conf: dict[str, str]
    disposition: Disposition
    row_limit: int | None
    byte_limit: int | None
    location: str | None
    timeout_seconds: float | None
    queue_seconds: float | None
    epoch: int | None
    """The epoch of the driver that claimed it."""
    attempts: int
    created_at: datetime
    launched_at: datetime | None
    started_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_reason: CancelReason | None
    cancel_forced: bool
    """Whether it may cost what else runs in the same driver."""
    cancel_note: str | None
    """Why a cancel is not done yet."""
    ended_at: datetime | None
    atomic: bool | None
    """Of a CTAS that ran: whether its table appeared whole; None for anything else."""
    note: str | None
    """What there is to know of a success."""
    progress: Progress | None
    """As of a second ago at most, while it runs."""
    failure: Failure | None
    result: ResultInfo | None
