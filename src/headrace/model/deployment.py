"""Deployments: plans of jobs, the change of each job, versions and savepoints."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from headrace.model.failure import Failure
from headrace.model.job import (
    JobDecision,
    OnQueryChange,
    PlanSummary,
    ReaderKind,
    SavepointContent,
)
from headrace.model.lifecycle import (
    ChangeStep,
    DeploymentState,
    JobState,
    SavepointState,
)
from headrace.model.run import BatchSpec
from headrace.model.session import SessionSpec
from headrace.model.stream_query import QuerySpec


class JobAction(StrEnum):
    """What a change does to a job."""

    DEPLOY = "deploy"
    START = "start"
    STOP = "stop"
    SAVEPOINT = "savepoint"
    ROLLBACK = "rollback"
    DELETE = "delete"


class JobSession(BaseModel):
    """The session in which a job runs."""

    model_config = ConfigDict(frozen=True)

    name: str
    spec: SessionSpec


class JobQuery(BaseModel):
    """A query of a job, without the location of its checkpoint."""

    model_config = ConfigDict(frozen=True)

    name: str
    directory: str
    """Directory below that of the run; "" for a job of one query."""
    spec: QuerySpec
    needs_path: bool = False
    """Whether the deployment chooses where its sink of files writes."""


class VersionDefinitions(BaseModel):
    """The table definitions that a job needs, as texts of SQL with the values of variables."""

    model_config = ConfigDict(frozen=True)

    streams: list[str] = []
    sinks: list[str] = []
    setup: list[str] = []


class VersionSpec(BaseModel):
    """A version of a job as it is accepted: all that is needed to run it again."""

    model_config = ConfigDict(frozen=True)

    text: str = ""
    """The manifest as YAML for display: without secrets and without values of variables. Empty in a
    draft."""
    written: dict[str, JsonValue]
    """The manifest with the defaults of the template and references to variables, by key."""
    manifest: dict[str, Any]
    """The manifest with the values of variables, by key."""
    definitions: VersionDefinitions = VersionDefinitions()
    description: str
    query_fingerprint: str
    configuration_fingerprint: str
    session: JobSession
    queries: list[JobQuery]
    batch: BatchSpec | None = None
    """What each run does; None: the job is a stream."""
    summaries: dict[str, PlanSummary] = {}
    """Plans by name of the query, as a driver has analysed them."""

    @property
    def runs_in_pool(self) -> bool:
        """Whether it runs in the pool session of the owner, and not in `session`."""
        return self.batch is not None and self.batch.in_pool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVersion:
    """An accepted manifest of a job. A change of the query raises `version`."""

    id: str
    job_id: str
    version: int
    """Number of the query, from 1."""
    revision: int
    """Number of the manifest, from 1."""
    query_id: str
    """UUID of the version; a change of the configuration keeps it."""
    query_created_at: datetime
    spec: VersionSpec
    decision: JobDecision
    reason: str
    from_state: str | None
    """Savepoint or run from which it began; None: it began without state."""
    last_run: str | None
    """Last run of the version: the directory of its checkpoint."""
    outcome: str | None
    """`deployed` or `failed`; None while it is being deployed."""
    deployment_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDecision:
    """A version of a job without its manifest: what was decided, and when."""

    version: int
    revision: int
    decision: JobDecision
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOrigin:
    """Where the state of a version comes from."""

    version: int
    revision: int
    has_state: bool
    parent: int | None
    """Version whose state it has continued; None: it began without state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the store holds it."""

    id: str
    owner: str
    name: str
    state: JobState
    generation: int
    """Raised by every change. A plan is valid for one generation."""
    state_location: str
    state_place: str | None
    """Identity of the place of `state_location`; None if an earlier version stored the job."""
    version_id: str | None
    """The deployed version; None while the first one is being deployed."""
    run: str | None
    """Directory of its checkpoints below those of the job: version and id."""
    change_id: str | None
    """The change in progress, which no other change can join."""
    failure: Failure | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None


class WrittenOutput(BaseModel):
    """What a query of a failed version had already written."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    query: str
    """Id of the query."""
    target: str
    """Table or location to which it wrote."""
    batches: int
    """Number of batches that it had committed."""
    rows: int | None = None
    """Number of rows that it had written, if that is known."""


class ChangeRecord(BaseModel):
    """What a change does, decided once, and what it has done so far."""

    model_config = ConfigDict(frozen=True)

    action: JobAction
    decision: JobDecision
    reason: str
    new_version_id: str | None = None
    """Version that is to run afterwards; None: the job is to stop."""
    new_run: str | None = None
    """Directory of the checkpoint of the new run."""
    old_version_id: str | None = None
    old_run: str | None = None
    old_query_ids: list[str] = []
    """Queries that ran before."""
    was: JobState | None = None
    """State of the job before; None: it is new."""
    takes_savepoint: bool = False
    """Whether the state of the old run is copied."""
    savepoint_id: str | None = None
    """The copy."""
    restores: bool = False
    """Whether the new run begins with a savepoint."""
    restore_id: str | None = None
    """That savepoint; None: the copy."""
    is_other_lineage: bool = False
    """Whether that savepoint belongs to a version whose state the old run has not continued."""
    task_id: str | None = None
    """Statement of the task in progress."""
    task_attempts: int = 0
    new_query_ids: list[str] = []
    base_batches: dict[str, int | None] = {}
    """Last committed batch of each new query when it was inserted, by id."""
    planned_batches: dict[str, int] = {}
    """Last batch with offsets in the savepoint from which each new query continues, by id."""
    written: list[WrittenOutput] = []
    """What a version that failed has already written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """The change of one job by a deployment, as the store holds it."""

    id: str
    deployment_id: str
    job_id: str
    owner: str
    name: str
    step: ChangeStep
    record: ChangeRecord
    failure: Failure | None
    created_at: datetime
    stepped_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A copy of the checkpoints of a job, as the store holds it."""

    id: str
    job_id: str
    version: int
    run: str
    place: str
    state: SavepointState
    content: SavepointContent | None
    created_at: datetime
    ended_at: datetime | None


class PlannedFacts(BaseModel):
    """What is known of a job before a deployment, apart from its state and its plans."""

    model_config = ConfigDict(frozen=True)

    is_new: bool
    is_running: bool
    configuration_changed: bool = False
    query_changed: bool = False
    on_query_change: OnQueryChange = OnQueryChange.RESET


class QueryPlace(BaseModel):
    """Where a part of the text of a query stands in the file of the manifest."""

    model_config = ConfigDict(frozen=True)

    offset: int
    """Offset of the part in the text."""
    line: int
    column: int


class TextPlaces(BaseModel):
    """Where the parts of a text stand in a file, in order."""

    model_config = ConfigDict(frozen=True)

    path: str
    parts: list[QueryPlace]


class PlannedJob(BaseModel):
    """What a deployment is to do to one job."""

    model_config = ConfigDict(frozen=True)

    name: str
    path: str = ""
    """File of the manifest; "" for a job without one."""
    decision: JobDecision
    reason: str
    hint: str = ""
    job_id: str | None = None
    generation: int = 0
    """Generation of the job when the plan was made; 0: the job is new."""
    version: int | None = None
    """Number of the version that is to run."""
    session: str = ""
    changed: list[str] = []
    """Changed keys of the manifest."""
    diff: str = ""
    notes: list[str] = []
    spec: VersionSpec | None = None
    """What is to run; None: nothing changes, or the job is to stop."""
    restores_from: str | None = None
    """Savepoint that the new run begins with, if it exists already."""
    is_other_lineage: bool = False
    """Whether that savepoint belongs to a version whose state the job has not continued."""
    keeps_run: bool = False
    """Whether the job continues with the checkpoint of its last run."""
    takes_savepoint: bool = True
    """Whether the state of a job that is to stop is copied."""
    path_source: VersionSpec | None = None
    """Version whose sinks of files the new one continues, if it is not the last one."""
    facts: PlannedFacts | None = None
    """What decides, while drivers check the job."""
    query_places: list[QueryPlace] = []
    """Places of the parts of `sql` or `code`, in order, while drivers check the job."""
    setup_places: list[TextPlaces] = []
    """Places of the statements in `rows.setup` of the queries, while drivers check the job."""
    expect_place: TextPlaces | None = None
    """Place of `expect`, while drivers check the job."""


class ManifestError(BaseModel):
    """Why a manifest cannot be deployed."""

    model_config = ConfigDict(frozen=True)

    path: str
    line: int | None = None
    column: int | None = None
    code: str
    message: str
    hint: str = ""
    job: str = ""


class BreakingChange(BaseModel):
    """A change of a column that a job, a view or a stream of the owner does not withstand."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    kind: ReaderKind | str
    """What reads the column: `job`, `view` or `stream`."""
    name: str
    """Name of the reader."""
    table: str
    """Table or view with the column; empty if it is not known."""
    column_name: str
    """Name of the column; empty if it is not known."""
    cause: str
    """Job or view that changes the column; empty if the catalog has changed already."""
    message: str
    """What the change breaks."""
    line: int | None = None
    """Line of the reader's SQL, counted from 1."""
    column: int | None = None
    """Column of the reader's SQL, counted from 1."""


class DeploymentPlan(BaseModel):
    """A plan for all jobs of a deployment."""

    model_config = ConfigDict(frozen=True)

    state_location: str
    state_place: str | None = None
    """Identity of the place of the state location; None in plans of earlier versions."""
    jobs: list[PlannedJob] = []
    errors: list[ManifestError] = []
    notes: list[str] = []
    check_ids: list[str] = []
    """Statements with which drivers check the jobs."""
    comparison_id: str | None = None
    """Statement with which a driver looks for breaking changes; None: no reader is concerned."""
    breaking: list[BreakingChange] = []

    @property
    def task_ids(self) -> list[str]:
        """Statements whose ends complete the plan."""
        return [*self.check_ids, *([self.comparison_id] if self.comparison_id else [])]

    @property
    def changes(self) -> list[PlannedJob]:
        """The jobs that are to be changed."""
        idle = {JobDecision.NONE, JobDecision.ERROR}
        return [job for job in self.jobs if job.decision not in idle]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A deployment as the store holds it."""

    id: str
    owner: str
    action: JobAction
    state: DeploymentState
    plan: DeploymentPlan
    created_at: datetime
    applied_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationLease:
    """The right of a node to work on an operation: the fence of every step."""

    id: str
    node_id: str
    epoch: int
