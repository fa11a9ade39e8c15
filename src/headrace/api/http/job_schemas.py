"""Bodies of the routes of jobs and deployments. See schemas.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool

from headrace.api.http.schemas import Instant, RequestModel, ResponseModel
from headrace.model.deployment import JobAction, WrittenOutput
from headrace.model.failure import Failure
from headrace.model.job import JobDecision, JobName
from headrace.model.lifecycle import ChangeStep, DeploymentState, JobState, SavepointState
from headrace.model.text import Name

_MAX_FILES = 10_000
_MAX_FILE = 1024 * 1024


class SourceFileBody(RequestModel):
    """A file of a deployment, as the client has read it."""

    path: Name
    """Path for messages."""
    text: Annotated[str, Field(max_length=_MAX_FILE)]


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


class StartRequestBody(RequestModel):
    """Body of `POST /jobs/{name}/start`."""

    clean: StrictBool = False
    """Start without state, as a new version."""


class RollbackRequestBody(RequestModel):
    """Body of `POST /jobs/{name}/rollback`."""

    version: Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)] | None = None
    """Version to return to; default: the one deployed before."""


class PlannedJobBody(ResponseModel):
    """What a deployment does to one job."""

    name: str
    path: str
    """File of the manifest."""
    decision: JobDecision | str
    reason: str
    hint: str
    version: int | None
    """Number of the version that is to run."""
    session: str
    changed: list[str]
    """Changed keys of the manifest."""
    diff: str
    """Unified diff of the manifest."""
    notes: list[str]
    step: ChangeStep | str | None
    """Last step of the change; None: it has not begun."""
    failure: Failure | None
    written: list[WrittenOutput]
    """What a version that failed had already written."""


class ManifestErrorBody(ResponseModel):
    """Why a manifest cannot be deployed."""

    path: str
    line: int | None
    column: int | None
    code: str
    message: str
    hint: str
    job: str


class DeploymentBody(ResponseModel):
    """A deployment: a plan, and what has been done of it."""

    id: str
    action: JobAction | str
    state: DeploymentState | str
    jobs: list[PlannedJobBody]
    errors: list[ManifestErrorBody]
    notes: list[str]
    has_changes: bool
    state_location: str
    created_at: Instant
    applied_at: Instant | None
    ended_at: Instant | None


class SavepointBody(ResponseModel):
    """A savepoint of a job."""

    id: str
    version: int
    run: str
    place: str
    state: SavepointState | str
    files: int | None
    bytes: int | None
    is_clean: bool | None
    created_at: Instant


class VersionBody(ResponseModel):
    """A version of a job, as a deployment has accepted it."""

    version: int
    revision: int
    query_id: str
    query_created_at: Instant
    decision: JobDecision | str
    reason: str
    from_state: str | None
    outcome: str | None
    """`deployed` or `failed`; null while it is being deployed."""
    deployment: str
    created_at: Instant
    manifest: str
    """The manifest as YAML, without the values of variables."""


class JobBody(ResponseModel):
    """A job."""

    id: str
    name: JobName
    state: JobState | str
    version: int | None
    """Number of the version that is deployed."""
    session: str | None
    state_location: str
    queries: list[str]
    """Ids of the live streaming queries."""
    last_batch: int | None
    """Largest number of a committed batch of a live query."""
    deployment: str | None
    """Deployment that changes the job now."""
    failure: Failure | None
    created_at: Instant
    updated_at: Instant
    current: VersionBody | None
    savepoints: list[SavepointBody]
    """Newest first; in a list of jobs, empty."""


class JobPage(ResponseModel):
    """All jobs of the caller, by name."""

    items: list[JobBody]
    next: str | None = None


class VersionPage(ResponseModel):
    """The versions of a job, newest first."""

    items: list[VersionBody]
    next: str | None = None


class DeploymentPage(ResponseModel):
    """The last deployments of the caller, newest first."""

    items: list[DeploymentBody]
    next: str | None = None
