"""Tasks of jobs that a driver carries out, and what it reports. See messages.py.

A task can run again after a lost driver: its outcome is the same.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from headrace.model.job import PlanSummary, SavepointContent
from headrace.model.stream_query import QuerySpec
from headrace.model.text import Code, MessageText, Name, SmallCount

_MAX_JOBS = 1000
_MAX_PROBLEMS = 1000


class QueryToCheck(BaseModel):
    """A query of a job, as it would start."""

    model_config = ConfigDict(frozen=True)

    name: str
    directory: str = ""
    """Directory below that of the run; "" for a job of one query."""
    spec: QuerySpec


class JobToCheck(BaseModel):
    """A job that a deployment would change."""

    model_config = ConfigDict(frozen=True)

    name: str
    queries: list[QueryToCheck] = []
    """Empty if only the state is looked for."""
    checkpoint: str | None = None
    """Directory of the checkpoints of the last run."""
    savepoints: list[str] = []
    """Directories of the savepoints, newest first."""


class CheckJobs(BaseModel):
    """Analyse queries, check their targets, and look for the state of jobs."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["check"] = "check"
    state_location: str
    """Location in which a file must be writable."""
    jobs: list[JobToCheck]


class TakeSavepoint(BaseModel):
    """Copy the checkpoints of a job that does not run. `_metadata` is written last."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["savepoint"] = "savepoint"
    checkpoint: str
    queries: list[str]
    """Names of the directories of the queries; [""] for a job of one query."""
    savepoint: str


class RestoreSavepoint(BaseModel):
    """Copy a savepoint to a new checkpoint directory, and verify every file."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["restore"] = "restore"
    savepoint: str
    checkpoint: str


class WriteManifests(BaseModel):
    """Write manifests of deployed jobs, each in one step, and delete others."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["manifests"] = "manifests"
    texts: dict[str, str] = {}
    """Texts by path."""
    deleted: list[str] = []


class DeleteStates(BaseModel):
    """Delete directories of savepoints and checkpoints that no job needs."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["delete"] = "delete"
    directories: list[str]


JobTask = Annotated[
    CheckJobs | TakeSavepoint | RestoreSavepoint | WriteManifests | DeleteStates,
    Field(discriminator="kind"),
]
"""A task of a driver."""


class JobProblem(BaseModel):
    """Why a job cannot be deployed."""

    model_config = ConfigDict(frozen=True)

    code: Code
    message: MessageText
    query: Name = ""
    """Name of the query."""
    setup: SmallCount | None = None
    """Index in `rows.setup` of the statement that the problem is in; None: it is in the query."""
    line: SmallCount | None = None
    """Line in the `sql`, `code` or statement, from 1."""
    column: SmallCount | None = None
    """Column, from 1."""


class CheckedJob(BaseModel):
    """What a driver has found out about a job."""

    model_config = ConfigDict(frozen=True)

    name: Name
    problems: Annotated[list[JobProblem], Field(max_length=_MAX_PROBLEMS, fail_fast=True)] = []
    notes: Annotated[list[MessageText], Field(max_length=_MAX_PROBLEMS, fail_fast=True)] = []
    """What could not be checked."""
    summaries: Annotated[dict[Name, PlanSummary], Field(max_length=_MAX_JOBS)] = {}
    """Plans by name of the query."""
    used_logs: Annotated[list[Name], Field(max_length=_MAX_JOBS)] = []
    """Queries whose sink of files has a log of earlier batches."""
    found_checkpoint: bool = False
    """Whether Spark could continue from the checkpoints of the last run."""
    found_savepoint: Name | None = None
    """The newest complete savepoint."""


class CheckedJobs(BaseModel):
    """Outcome of `CheckJobs`."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["check"] = "check"
    jobs: Annotated[list[CheckedJob], Field(max_length=_MAX_JOBS, fail_fast=True)]
    location_problem: MessageText | None = None
    """Why the state location cannot be written."""


class SavepointTaken(BaseModel):
    """Outcome of `TakeSavepoint`."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["savepoint"] = "savepoint"
    content: SavepointContent


class TaskDone(BaseModel):
    """Outcome of a task that returns nothing."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["done"] = "done"


JobOutcome = Annotated[CheckedJobs | SavepointTaken | TaskDone, Field(discriminator="kind")]
"""What a driver reports about a task."""
