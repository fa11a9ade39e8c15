"""Bodies of the routes of jobs and deployments. See schemas.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StrictBool

from headrace.frontends.rest.schemas import (
    Instant,
    MaskedMessage,
    RequestModel,
    ResponseModel,
    integer,
)
from headrace.model.deployment import BreakingChange, JobAction, WrittenOutput
from headrace.model.failure import Failure
from headrace.model.job import JobDecision, JobName
from headrace.model.lifecycle import ChangeStep, DeploymentState, JobState, SavepointState
from headrace.model.reasons import ReasonCode
from headrace.model.text import Name

_MAX_FILES = 1_000
_MAX_FILE = 1024 * 1024


if TYPE_CHECKING:
    JobVersion = int
else:
    JobVersion = integer(1, 2**31 - 1)


class SourceFileBody(RequestModel):
    """A file of a deployment, as the client has read it."""

    path: Name
    """Path for messages."""
    text: Annotated[str, Field(max_length=_MAX_FILE)]
    """Content of the file."""


class PlanRequestBody(RequestModel):
    """Body of `POST /deployments`."""

    manifests: Annotated[list[SourceFileBody], Field(max_length=_MAX_FILES)]
    """YAML files; a file can hold several manifests."""
    template: SourceFileBody | None = None
    """Defaults of all manifests."""
    definitions: Annotated[list[SourceFileBody], Field(default=[], max_length=1000)]
    """SQL files that define tables, streams and sinks."""
    variables: Annotated[dict[str, str], Field(default={}, max_length=10_000)]
    """Values of `${NAME}`."""
    profile: Name = "default"
    """Profile of the sessions in which the jobs run."""
    state_location: Name | None = None
    """Location of manifests, savepoints and checkpoints; default: the setting
    `jobs.state_location`."""
    py_files: Annotated[list[Name], Field(default=[], max_length=1000)]
    """Python files and zips for the code of jobs."""
    prune: StrictBool = False
    """Whether jobs of the state location without a manifest are stopped and deleted."""
    owner: Name | None = None
    """Owner of the jobs: the caller, or `group:NAME` for a group of the caller. Default: the
    caller."""


class StartRequestBody(RequestModel):
    """Body of `POST /jobs/{name}/start`."""

    clean: StrictBool = False
    """Start without state, as a new version."""


class RollbackRequestBody(RequestModel):
    """Body of `POST /jobs/{name}/rollback`."""

    version: JobVersion | None = None
    """Version to return to; default: the one deployed before."""


class PlannedJobBody(ResponseModel):
    """What a deployment does to one job."""

    name: str
    """Name of the job."""
    path: str
    """File of the manifest."""
    decision: JobDecision | str
    """What the deployment does to the job."""
    reason: str
    """Why it does this."""
    hint: str
    """What to do about an error; empty without one."""
    version: int | None
    """Number of the version that is to run."""
    session: str
    """Name of the session in which the job runs."""
    changed: list[str]
    """Changed keys of the manifest."""
    diff: str
    """Unified diff of the manifest."""
    notes: list[str]
    """Remarks on this job."""
    step: ChangeStep | str | None
    """Last step of the change; None: it has not begun."""
    failure: Failure | None
    """Why the change failed."""
    written: list[WrittenOutput]
    """What a version that failed had already written."""


class ManifestErrorBody(ResponseModel):
    """Why a manifest cannot be deployed."""

    path: str
    """File of the manifest."""
    line: int | None
    """Line in the file, counted from 1."""
    column: int | None
    """Column in the file, counted from 1."""
    code: str
    """Stable code of the error."""
    message: str
    """What is wrong."""
    hint: str
    """What to do."""
    job: str
    """Name of the job; empty if it is not known."""


class DeploymentBody(ResponseModel):
    """A deployment: a plan, and what has been done of it."""

    id: str
    """Id of the deployment."""
    action: JobAction | str
    """What the deployment does to its jobs."""
    state: DeploymentState | str
    """State of the deployment."""
    jobs: list[PlannedJobBody]
    """The jobs, each with its decision and its step."""
    errors: list[ManifestErrorBody]
    """Why manifests cannot be deployed."""
    notes: list[str]
    """Remarks on the whole plan."""
    breaking: list[BreakingChange]
    """Jobs, views and streams that need a column which the plan, or an earlier change of the
    catalog, takes away or gives another type."""
    has_changes: bool
    """Whether the plan changes any job."""
    state_location: str
    """Location of manifests, savepoints and checkpoints."""
    created_at: Instant
    """When the plan was requested."""
    applied_at: Instant | None
    """When the plan was applied."""
    ended_at: Instant | None
    """When the deployment ended."""


class SavepointBody(ResponseModel):
    """A savepoint of a job."""

    id: str
    """Id of the savepoint."""
    version: int
    """Version of the job whose state it holds."""
    run: str
    """Run of the job whose state it holds."""
    place: str
    """Location of the copy."""
    state: SavepointState | str
    """State of the savepoint."""
    files: int | None
    """Number of files; null until the copy is verified."""
    bytes: int | None
    """Size of all files; null until the copy is verified."""
    is_clean: bool | None
    """Whether the queries had stopped between two batches; null if that is not known yet."""
    created_at: Instant
    """When the copy began."""


class VersionBody(ResponseModel):
    """A version of a job, as a deployment has accepted it."""

    version: int
    """Number of the version, from 1."""
    revision: int
    """Number of the manifest, from 1. A change of the configuration alone keeps the version."""
    query_id: str
    """UUID of the version, which a change of the configuration alone keeps."""
    query_created_at: Instant
    """When this UUID was created."""
    decision: JobDecision | str
    """What the deployment did to the job."""
    reason: str
    """Why it did this."""
    from_state: str | None
    """Savepoint or run from which it began; null: it began without state."""
    outcome: str | None
    """`deployed` or `failed`; null while it is being deployed."""
    deployment: str
    """Id of the deployment."""
    created_at: Instant
    """When the version was accepted."""
    manifest: str
    """The manifest as YAML, without the values of variables."""


class FreshnessBody(ResponseModel):
    """How far the rows of a job with `max-lag` are behind its tables."""

    max_lag_seconds: float
    """Longest lag that the manifest allows."""
    lag_seconds: float
    """Age of the oldest change that no successful run has read; 0: all changes were read."""
    is_exceeded: bool
    """Whether the lag is longer than `max_lag_seconds`."""
    expected_run_seconds: float | None
    """Longest duration of the last runs; null: no run of the version has succeeded in its first
    attempt."""
    unwatched_tables: list[str]
    """Tables and files that the last successful run has read, and whose changes do not count."""


class JobBody(ResponseModel):
    """A job."""

    id: str
    """Id of the job."""
    name: JobName
    """Name of the job."""
    state: JobState | str
    """State of the job."""
    version: int | None
    """Number of the version that is deployed."""
    session: str | None
    """Id of the session in which the job runs."""
    state_location: str
    """Location of its manifest, savepoints and checkpoints."""
    queries: list[str]
    """Ids of the live streaming queries."""
    last_batch: int | None
    """Largest number of a committed batch of a live query."""
    deployment: str | None
    """Deployment that changes the job now."""
    failure: Failure | None
    """Why the job failed."""
    reason: MaskedMessage | None
    """Why it does not run as it should, as a sentence; null while all of its queries run."""
    reason_code: ReasonCode | None
    """Kind of this reason."""
    freshness: FreshnessBody | None
    """Lag of a job; null: it has no `max-lag`. In a list of jobs, null."""
    created_at: Instant
    """When the job was first deployed."""
    updated_at: Instant
    """When the job last changed."""
    current: VersionBody | None
    """The deployed version."""
    savepoints: list[SavepointBody]
    """Newest first; in a list of jobs, empty."""
    waiting_runs: int | None
    """Runs that wait for their turn; in a list of jobs, null."""
    seconds_between_starts: float | None
    """Mean time between the starts of the last 20 runs before the waiting ones; null: no run waits,
    or fewer than two have begun within the last hour."""


class JobPage(ResponseModel):
    """All jobs of the caller, by name."""

    items: list[JobBody]
    """The jobs."""
    next: str | None = None
    """Always null: the list is complete."""


class VersionPage(ResponseModel):
    """The versions of a job, newest first."""

    items: list[VersionBody]
    """The versions, newest first."""
    next: str | None = None
    """Always null: ask for more with `limit`."""


class DeploymentPage(ResponseModel):
    """The last deployments of the caller, newest first."""

    items: list[DeploymentBody]
    """The deployments."""
    next: str | None = None
    """Always null: the list is complete."""
