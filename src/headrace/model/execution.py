"""What Spark has done for a statement: the plan that it ran, and the stages with their tasks.

A driver reports it once, after the end of the statement. The store keeps it for as long as the
statement, so that it outlives Spark's own UI.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema

from headrace.model.text import Count, MessageText, SmallCount, SummaryText

MAX_STAGES = 200
"""Largest number of stages of one statement."""
MAX_OPERATORS = 500
"""Largest number of operators in the plans of one statement."""
MAX_METRICS = 64
"""Largest number of metrics of one operator."""
_MAX_SECONDS = 1e9

DriverInstant = Annotated[
    AwareDatetime,
    Field(ge=datetime(1970, 1, 1, tzinfo=UTC), le=datetime(2200, 1, 1, tzinfo=UTC)),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 64}),
]
"""An instant on the clock of a driver."""
Seconds = Annotated[float, Field(ge=0, le=_MAX_SECONDS)]


class SparkStageState(StrEnum):
    """The states that Spark gives to a stage, without those that it has skipped."""

    PENDING = "pending"
    ACTIVE = "active"  # it had not ended when the statement ended
    COMPLETE = "complete"
    FAILED = "failed"


class SparkStage(BaseModel):
    """One attempt to run a stage of Spark. The numbers are sums over its tasks."""

    model_config = ConfigDict(
        frozen=True, use_attribute_docstrings=True, allow_inf_nan=False, extra="ignore"
    )

    id: SmallCount
    """Id of the stage in the Spark application."""
    attempt: SmallCount
    """Number of the attempt, from 0."""
    name: SummaryText
    """The call that has started the stage, as Spark's UI shows it."""
    state: SparkStageState
    """State at the end of the statement."""
    started_at: DriverInstant | None
    """When Spark submitted the stage, on the clock of the driver."""
    ended_at: DriverInstant | None
    """When the stage ended, on the clock of the driver."""
    tasks_total: Count
    """Tasks of the stage."""
    tasks_done: Count
    """Tasks that have succeeded."""
    tasks_failed: Count
    """Failed attempts of tasks; Spark retries them."""
    tasks_killed: Count
    """Attempts of tasks that Spark has killed, for example for a cancel."""
    run_seconds: Seconds
    """Time that the executors have spent in the tasks."""
    median_task_seconds: Seconds | None
    """Median of the durations of the tasks that have succeeded; null if none has, or if there were
    too many tasks to read."""
    longest_task_seconds: Seconds | None
    """Longest duration of a task that has succeeded. A task that takes many times the median is a
    sign of skew."""
    rows_read: Count
    """Rows read from sources that count them."""
    bytes_read: Count
    """Bytes read from sources that count them."""
    rows_written: Count
    """Rows written to tables and files."""
    bytes_written: Count
    """Bytes written to tables and files."""
    shuffle_rows_read: Count
    """Rows read from earlier stages."""
    shuffle_bytes_read: Count
    """Bytes read from earlier stages."""
    shuffle_rows_written: Count
    """Rows written for later stages."""
    shuffle_bytes_written: Count
    """Bytes written for later stages."""
    memory_bytes_spilled: Count
    """Bytes that the spilled data took in memory."""
    disk_bytes_spilled: Count
    """Bytes that the spilled data took on disk."""
    failure: SummaryText | None
    """Beginning of the reason for which the stage failed."""


class SparkOperator(BaseModel):
    """A node of the physical plan, with its metrics."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    depth: Annotated[int, Field(ge=0, le=10_000, strict=True)]
    """Depth in the tree: the inputs of an operator follow it, one level deeper. A second operator
    of depth 0 begins the next plan."""
    name: SummaryText
    """Name of the operator."""
    metrics: Annotated[dict[SummaryText, SummaryText], Field(max_length=MAX_METRICS)]
    """Values of Spark's metrics by name, as Spark's UI shows them. Those that are 0 are left out,
    apart from the number of output rows."""


class StatementExecution(BaseModel):
    """The plan and the stages of a statement."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    plan: MessageText | None
    """The physical plan as EXPLAIN FORMATTED shows it, after its adaptive changes, at most 64 Ki
    characters; a longer text ends with `… [cut]`. Several plans follow one another. Null if no
    DataFrame has run."""
    operators: Annotated[list[SparkOperator], Field(max_length=MAX_OPERATORS, fail_fast=True)]
    """The operators of the plan, each before its inputs; at most 500."""
    operators_omitted: Count
    """Number of further operators."""
    stages: Annotated[list[SparkStage], Field(max_length=MAX_STAGES, fail_fast=True)]
    """Stages by id and attempt; at most 200: those that have failed, then those with the longest
    run time. Stages that Spark has skipped are not listed."""
    stages_omitted: Count
    """Number of further stages."""
    tasks_active: Count | None = None
    """Tasks that still ran when the driver reported: a task that a cancel kills runs until it
    notices. Null if the driver has not counted them."""
