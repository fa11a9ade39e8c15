"""Tasks of jobs and batches that a driver carries out, and what it reports. See messages.py.

A task of a job can run again after a lost driver: its outcome is the same.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from headrace.model.job import PlanSummary, ReaderKind, SavepointContent
from headrace.model.materialized_view import NameScope
from headrace.model.stream_query import QuerySpec
from headrace.model.text import Code, MessageText, Name, SmallCount, check_text

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


class TextsToAnalyse(BaseModel):
    """The SQL of a job, a view or a stream. Spark analyses it, and runs none of it."""

    model_config = ConfigDict(frozen=True)

    setup: list[str] = []
    """Statements before it, whose positions are not reported."""
    statements: list[str] = []
    """Statements, or one query, each at its position in the text that its author sees."""
    query: QuerySpec | None = None
    """A streaming query, instead of statements."""
    target: list[str] = []
    """Name of the table or view that receives the rows of a single query."""
    conf: dict[str, str] = {}
    scope: NameScope | None = None
    """Catalog and namespace in which names are resolved; None: those of the session."""


class WriterToCompare(BaseModel):
    """A job whose deployment may change the columns of tables."""

    model_config = ConfigDict(frozen=True)

    name: str
    before: list[TextsToAnalyse]
    after: list[TextsToAnalyse]


class ReaderToAnalyse(BaseModel):
    """A job, a view or a stream that reads tables."""

    model_config = ConfigDict(frozen=True)

    kind: ReaderKind
    name: str
    texts: list[TextsToAnalyse]


class CompareColumns(BaseModel):
    """Find the columns that writers no longer give their tables, and the readers of these."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["columns"] = "columns"
    writers: list[WriterToCompare]
    readers: list[ReaderToAnalyse]


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
    """Create what deployed jobs need, and write their manifests in one step each; delete others."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["manifests"] = "manifests"
    texts: dict[str, str] = {}
    """Texts by path."""
    deleted: list[str] = []
    definitions: list[str] = []
    """Statements to run before: tables and views that exist stay."""


class DeleteStates(BaseModel):
    """Delete directories of savepoints and checkpoints that no job needs."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["delete"] = "delete"
    directories: list[str]


MAX_FILE_BYTES = 4 * 1024 * 1024
"""Largest file that a batch runs."""
MAX_FILE_STATEMENTS = 1000
"""Largest number of statements in a SQL file that a batch runs."""


class FileLanguage(StrEnum):
    """What the file of a batch contains."""

    SQL = "sql"
    PYTHON = "python"


class RunFile(BaseModel):
    """Read a SQL file, or run a Python file."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["file"] = "file"
    location: str
    """Path or URI, which the driver reads with its own rights."""
    language: FileLanguage
    arguments: list[str] = []
    """Arguments of a Python file: `sys.argv[1:]`."""


ROWS_VIEW = "headrace_rows"
"""Temporary view of the rows that code binds, for the statement that reads them."""


class BindRows(BaseModel):
    """Run the Python of a batch job, whose rows the statement of Spark's own reads."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["rows"] = "rows"
    code: str
    """Python that binds `execution_output` to a DataFrame."""


JobTask = Annotated[
    CheckJobs
    | CompareColumns
    | TakeSavepoint
    | RestoreSavepoint
    | WriteManifests
    | DeleteStates
    | RunFile
    | BindRows,
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
    checks_rows: bool = False
    """Whether the driver checks the expectations of streams. One of an older version would write
    all rows."""
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


class BrokenReader(BaseModel):
    """A column that a reader needs, and that is gone or has another type."""

    model_config = ConfigDict(frozen=True)

    reader: SmallCount
    """Index of the reader in the task."""
    cause: Name = ""
    """Name of the writer or reader that changes the column; "": the catalog has changed already."""
    table: Name = ""
    column: Name = ""
    old_type: Name = ""
    new_type: Name = ""
    """"": the column is gone."""
    message: MessageText = ""
    """Why Spark refuses the text, if the catalog has changed already."""
    line: SmallCount | None = None
    """Line of the text, from 1."""
    offset: SmallCount | None = None
    """Column of the text, from 1."""


class ComparedColumns(BaseModel):
    """Outcome of `CompareColumns`."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["columns"] = "columns"
    broken: Annotated[list[BrokenReader], Field(max_length=_MAX_PROBLEMS, fail_fast=True)] = []
    notes: Annotated[list[MessageText], Field(max_length=_MAX_PROBLEMS, fail_fast=True)] = []
    """What could not be analysed."""


class SavepointTaken(BaseModel):
    """Outcome of `TakeSavepoint`."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["savepoint"] = "savepoint"
    content: SavepointContent


class TaskDone(BaseModel):
    """Outcome of a task that returns nothing."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["done"] = "done"


class FileStatement(BaseModel):
    """A statement of a SQL file."""

    model_config = ConfigDict(frozen=True)

    text: Annotated[str, Field(max_length=MAX_FILE_BYTES), AfterValidator(check_text)]
    line: SmallCount
    """Line of the file in which it begins, from 1."""


class FileRead(BaseModel):
    """Outcome of `RunFile` for a SQL file: its statements, which then run one after the other."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["file"] = "file"
    statements: Annotated[
        list[FileStatement], Field(max_length=MAX_FILE_STATEMENTS, fail_fast=True)
    ]


JobOutcome = Annotated[
    CheckedJobs | ComparedColumns | SavepointTaken | FileRead | TaskDone,
    Field(discriminator="kind"),
]
"""What a driver reports about a task."""
