"""Runs of batch jobs: what a version runs, when it fires, and the run of each logical time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headrace.model.expectation import Expectation
from headrace.model.failure import Failure
from headrace.model.lifecycle import RunState
from headrace.model.schedule import Schedule
from headrace.text.durations import Duration

RUN_KIND = "job_run"
"""Kind of the operations that make runs."""


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
    LOOKBACK = "lookback"
    REPAIR = "repair"


INPUT_FILES = "input_files"
"""Name of the parameter with the files of a run, as Spark's column `_metadata.file_path` has them.
"""
RUN_PARAMETERS = {
    "run_time": "TIMESTAMP",
    "interval_start": "TIMESTAMP",
    "interval_end": "TIMESTAMP",
    "query_create_timestamp": "TIMESTAMP",
    "run_id": "STRING",
    "query_name": "STRING",
    "query_description": "STRING",
    "query_id": "STRING",
    "query_version": "INT",
    INPUT_FILES: "ARRAY<STRING>",
}
"""Types of the values that the statements of a run can name."""


class TriggerSourceKind(StrEnum):
    """What starts runs, apart from the clock and users."""

    JOB = "job"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class TriggerSource:
    """A job or a table that starts runs."""

    kind: TriggerSourceKind
    key: str
    """Text that is equal for all names of the source."""
    name: str
    """Its name in the manifest."""


class FiringRules(BaseModel):
    """When a job fires, and what happens to a firing that is late or overlaps another."""

    model_config = ConfigDict(frozen=True)

    schedule: Schedule | None = None
    """None: only users start the job."""
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LAST
    delay: Duration = timedelta()
    """Time between the logical time and the start of the run, in which late data may arrive."""
    lookback: int = 0
    """Number of earlier logical times that run again with each new one, for late data."""

    @property
    def clock(self) -> Schedule | None:
        """The part of the schedule by which the clock starts the job; None: there is none."""
        return None if self.schedule is None else self.schedule.clock

    @property
    def clock_waits(self) -> bool:
        """Whether a time of the clock starts a run only when other conditions are met too."""
        return self.schedule is not None and not self.schedule.is_clock_enough

    @property
    def files(self) -> Schedule | None:
        """The part of the schedule by which new files start the job; None: there is none."""
        return None if self.schedule is None else self.schedule.files

    @property
    def max_lag(self) -> timedelta | None:
        """The longest time that the job may be behind its tables; None: any."""
        return None if self.schedule is None else self.schedule.max_lag


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
    expectations: list[Expectation] = []
    """Conditions on the rows that it writes."""
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
    definitions: list[str] = []
    """Statements that create its tables and views. A deployment runs them, and no run does."""
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


class RunInput(BaseModel):
    """What started a run: the run of a job that it follows, changes of a table, or new files."""

    model_config = ConfigDict(frozen=True)

    job: str | None = None
    """Name of the job."""
    run: str | None = None
    """Id of its run."""
    table: str | None = None
    """Name of the table."""
    after_transaction: str | None = None
    """The last change that an earlier run has used; None: there was none."""
    last_transaction: str | None = None
    """The last change that the run has to use."""
    location: str | None = None
    """Location of the files."""
    file_count: int | None = None
    """Number of the files that the run has to read."""


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
    inputs: list[RunInput]
    """What started it; nothing, unless a condition did."""
    repetition: int
    """0: the first run of its logical time."""
    attempt: int
    """Number of its last attempt, from 1; 0: none has begun."""
    position: int
    """Position of the statement that is next or runs, from 0."""
    awaits_attempt: bool
    """Whether no attempt is in progress: the run is due, or its last attempt has failed."""
    awaits_conditions: bool
    """Whether its time has come, and it waits for other conditions of its schedule."""
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

    @property
    def files(self) -> list[RunInput]:
        """The inputs that are files: every run of its time reads them."""
        return [each for each in self.inputs if each.location is not None]

    @property
    def may_begin(self) -> bool:
        """Whether it has not begun, and waits for its turn alone."""
        has_begun = self.state is not RunState.DUE or self.cancelled_by is not None
        return not has_begun and not self.awaits_conditions


def measure_lateness(run: JobRun, now: datetime) -> float | None:
    """Return the seconds by which the last attempt of a run began late, or is late until now.

    None: the run has ended without an attempt, or waits for its next one.
    """
    if run.state is RunState.DUE:
        return max(0.0, (now - run.due_at).total_seconds())
    if run.started_at is None or run.awaits_attempt:
        return None
    return max(0.0, (run.started_at - run.due_at).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRun:
    """A run that has ended, as a job that follows it has yet to take it into account."""

    run: JobRun
    is_missed: bool
    """Whether the job that follows was stopped when the run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """A change of a table that a job has yet to take into account."""

    source_key: str
    transaction_id: str
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class FileState:
    """What a list shows of a file. The file has changed if its size or its revision has."""

    size: int
    revision: str
    """ETag of an object, or modification time of a local file."""
    file_id: str | None = None
    """Text that a local file keeps when it is renamed; None: the file system has none."""


@dataclass(frozen=True, slots=True)
class UsedFile:
    """A file that a run of a job reads or has read."""

    state: FileState
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWatch:
    """A job that new files start, and the node that lists them."""

    job_id: str
    node_id: str | None
    """None: no node has claimed it yet."""
    epoch: int
    """Number of claims."""
    problem: str | None
    """Why the files cannot start runs; None: they can."""
    is_held: bool
    """Whether the node has a valid lease."""


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
