"""Runs of batch jobs: what a version runs, when it fires, and the run of each logical time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headrace.model.failure import Failure
from headrace.model.lifecycle import RunState
from headrace.model.schedule import Schedule
from headrace.text.durations import Duration


class Overlap(StrEnum):
    """What happens to a run that is due while an earlier one of its job runs."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_PREVIOUS = "cancel-previous"


class CatchUp(StrEnum):
    """Which of the runs that were missed, because no node or no job was there, are made up for."""

    ALL = "all"
    LAST = "last"
    NONE = "none"


class ResumeAt(StrEnum):
    """Where the next attempt of a run begins."""

    FAILED_STATEMENT = "failed-statement"
    START = "start"


class RunTrigger(StrEnum):
    """Why a run is due."""

    SCHEDULE = "schedule"
    CONDITION = "condition"
    USER = "user"
    BACKFILL = "backfill"
    REPAIR = "repair"


class FiringRules(BaseModel):
    """When a job fires, and what happens to a firing that is late or overlaps another."""

    model_config = ConfigDict(frozen=True)

    schedule: Schedule | None = None
    """None: only users start the job."""
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LAST
    delay: Duration = timedelta()
    """Time between the logical time and the start of the run, in which late data may arrive."""


class RunRetries(BaseModel):
    """How often a run is attempted again, and when: see `RetryPolicy`."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_name=True,
        validate_by_alias=True,
    )

    max_attempts: Annotated[int, Field(ge=0)] = 3
    """Largest number of further attempts."""
    min_backoff: Duration = timedelta(seconds=10)
    max_backoff: Duration = timedelta(hours=1)
    random_factor: Annotated[float, Field(ge=0, le=10)] = 0.1


class WriteMode(StrEnum):
    """How the rows of a run change a table."""

    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite-partitions"
    MERGE = "merge"


class BatchTarget(BaseModel):
    """The table that the runs of a job write to, and how."""

    model_config = ConfigDict(frozen=True)

    name: tuple[str, ...]
    """Parts of its name."""
    write: WriteMode = WriteMode.APPEND
    merge_keys: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    """Names of its partition columns, if the manifest has them."""


class BatchStatement(BaseModel):
    """A statement of a run, with markers for the parameters of the run."""

    model_config = ConfigDict(frozen=True)

    text: str
    conf: dict[str, str] = {}
    """Spark configuration for this statement alone."""
    code: str | None = None
    """Python that binds the rows that the statement reads; see `BindRows`."""
    creates_target: bool = False
    """Whether it creates the target table. It runs until a run of the version has succeeded: a
    table that is dropped later is missed, and not replaced by one with the rows of one run."""


class BatchSpec(BaseModel):
    """What each run of a version does."""

    model_config = ConfigDict(frozen=True)

    rules: FiringRules
    statements: list[BatchStatement]
    conf: dict[str, str] = {}
    """Spark configuration of its Spark session."""
    in_pool: bool = True
    """Whether the runs use the pool session of their owner, and not the session of the version."""
    target: BatchTarget | None = None
    """What a run writes; None: its script says so."""
    retries: RunRetries = RunRetries()
    time_limit: Duration | None = None
    """Longest time of an attempt."""
    resume_at: ResumeAt = ResumeAt.FAILED_STATEMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """The logical time of a run and its interval, as instants in UTC."""

    logical_time: datetime
    interval_start: datetime
    """The run reads data from here on."""
    interval_end: datetime
    """The run reads data up to here, and not including it."""
    zone: str = "UTC"
    """Time zone of the schedule."""
    utc_offset: int = 0
    """Offset of the zone at the logical time, in seconds."""
    is_shifted: bool = False
    """Whether the clock skipped the time of the schedule on that day."""
    tzdata: str = ""
    """Version of the time zone data with which the time was computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A run of a job for one logical time, as the store holds it.

    The schedule inserts one run for each logical time, a skipped one included. A user who runs the
    time again inserts a repetition, when the run before has ended.
    """

    id: str
    job_id: str
    owner: str
    name: str
    """Name of the job."""
    version_id: str
    """Version of the job whose statements it runs."""
    state: RunState
    trigger: RunTrigger
    backfill_id: str | None
    """The backfill to which it belongs, or None."""
    times: RunTimes
    repetition: int
    """0: the first run of its logical time."""
    attempt: int
    """Number of its last attempt, from 1; 0: none has begun."""
    position: int
    """Position of the statement that is next or runs, from 0."""
    awaits_attempt: bool
    """Whether no attempt is in progress: the run is due, or its last attempt has failed."""
    has_turn: bool
    """Whether a node makes the run; without it, it waits for the runs before it."""
    parallelism: int
    """Number of runs of the job beside which it may begin, itself included."""
    due_at: datetime
    """Time from which it may begin, or from which the next attempt may."""
    connection_id: str | None
    """The connection in whose Spark session its statements run; None: none is open."""
    reason: str
    """Why it was skipped or waits, in words."""
    failure: Failure | None
    cancelled_by: str | None
    """User who has asked for its end, or None."""
    created_at: datetime
    started_at: datetime | None
    """Begin of its last attempt."""
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatement:
    """A statement of an attempt of a run."""

    run_id: str
    attempt: int
    position: int
    statement_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSchedule:
    """The schedule of a deployed job, and how far it has come."""

    job_id: str
    owner: str
    name: str
    version_id: str
    rules: FiringRules
    cursor: datetime
    """No firing at this instant or before it is inserted any more."""
    next_at: datetime | None
    """Time of the next firing; None: the clock does not start the job."""
