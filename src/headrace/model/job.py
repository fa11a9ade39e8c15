"""Jobs: what a manifest declares, the versions of a job, and where its state is kept."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from headrace.model.expectation import MAX_EXPECTATIONS, Expectation
from headrace.model.text import Count, MessageText, Name

JOB_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,89}$"
JobName = Annotated[str, StringConstraints(pattern=JOB_NAME_PATTERN)]
"""Name of a job. It is a part of paths and of the names of sessions."""

METADATA_COLUMNS = (
    "__create_timestamp",
    "__query_name",
    "__query_description",
    "__query_id",
    "__query_version",
    "__query_create_timestamp",
)
"""Columns that a job adds to its rows, in order. Names and meanings are those of the seed."""


class JobDecision(StrEnum):
    """What a deployment does to a job."""

    START_CLEAN = "start-clean"
    NONE = "none"
    RESTART_FROM_SAVEPOINT = "restart-from-savepoint"
    RESTART_CLEAN = "restart-clean"
    RESUME_LATEST = "resume-latest"
    UPDATE = "update"
    STOP = "stop"
    ERROR = "error"


class OnQueryChange(StrEnum):
    """What happens to the state of a job whose query has changed."""

    RESET = "reset"
    KEEP_COMPATIBLE = "keep-compatible"
    REFUSE = "refuse"


class ReaderKind(StrEnum):
    """What reads a table whose columns change."""

    JOB = "job"
    VIEW = "view"
    STREAM = "stream"


class JobMetadata(BaseModel):
    """Values of the metadata columns, apart from the time of each row."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    query_id: str
    """A UUID, new with each version."""
    version: int
    created_at: datetime
    """Creation of the version, UTC."""


class JobRows(BaseModel):
    """Where the rows of a query of a job come from, and what is added to them."""

    model_config = ConfigDict(frozen=True)

    setup: list[str] = []
    """Statements of Spark's own to run before each start, in order: CREATE TABLE, SET …"""
    sql: str | None = None
    """A query. Without `sql` and `code`, the rows come from the source of the SAVE STREAM."""
    code: str | None = None
    """Python that binds `execution_output` to a DataFrame, with `spark` in scope."""
    metadata: JobMetadata | None = None
    """None: no columns are added."""
    expectations: Annotated[list[Expectation], Field(max_length=MAX_EXPECTATIONS)] = []
    """Conditions on each row, of a query that is a stream."""


class PlanSummary(BaseModel):
    """What Spark's analysed plan of a query says about its state. Equal texts mean equal state."""

    model_config = ConfigDict(frozen=True)

    is_streaming: bool
    sources: Annotated[list[Name], Field(max_length=1000)] = []
    """Each streaming source: its provider, and the options that identify its data. In the order of
    the plan."""
    operators: Annotated[list[MessageText], Field(max_length=1000)] = []
    """Each stateful operator: its kind, keys, functions and types. In the order of the plan."""
    columns: Annotated[list[tuple[Name, MessageText]], Field(max_length=10_000)] = []
    """Names and types of the rows, without the metadata columns."""
    is_complete: bool = True
    """False if the plan has a node whose state is unknown, for example one of a connector."""


class SavepointContent(BaseModel):
    """What `_metadata` of a savepoint records."""

    model_config = ConfigDict(frozen=True)

    files: Count
    bytes: Count
    checksum: Name
    """Checksum of the names, sizes and checksums of all files."""
    spark_version: Name
    is_clean: bool
    """Whether every batch with offsets has its commit."""
    last_batches: Annotated[dict[Name, Count], Field(max_length=1000)] = {}
    """Number of the last committed batch of each query, by name; "" for a job of one query."""
    planned_batches: Annotated[dict[Name, Count], Field(max_length=1000)] = {}
    """Number of the last batch with offsets of each query: one more if its commit is missing."""
