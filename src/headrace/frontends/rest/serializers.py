"""Response bodies from the records that services return."""

from __future__ import annotations

from typing import Any

from headrace.control.jobs.service import DeploymentStatus, JobStatus
from headrace.control.runs.schedule_status import RunQueue
from headrace.errors import HeadraceError
from headrace.frontends.rest.job_schemas import (
    DeploymentBody,
    FreshnessBody,
    JobBody,
    ManifestErrorBody,
    PlannedJobBody,
    SavepointBody,
    VersionBody,
)
from headrace.frontends.rest.schemas import (
    ColumnBody,
    ErrorBody,
    EventBody,
    ExecutionBody,
    OperatorBody,
    ResultBody,
    SessionBody,
    StageBody,
    StatementBody,
    WaitingBody,
    fill,
    show_fields,
)
from headrace.grammar.masking import mask_sql, mask_urls, mask_values
from headrace.model.deployment import JobChange, JobVersion, PlannedJob, Savepoint
from headrace.model.event import Event
from headrace.model.execution import StatementExecution
from headrace.model.failure import Failure
from headrace.model.freshness import Freshness
from headrace.model.reasons import Reason, explain_statement
from headrace.model.request_fields import SessionFields
from headrace.model.result import ResultInfo
from headrace.model.session import Session, SessionSpec
from headrace.model.statement import Statement, WaitingFor
from headrace.results.schema import parse_schema

_LOCATIONS = ("jars", "files", "py_files")
"""Fields of a session whose URLs may contain passwords."""


def show_reason(reason: Reason | None) -> dict[str, Any]:
    """Return the fields of a body that say why an object is in its state."""
    return {
        "reason": None if reason is None else reason.text,
        "reason_code": None if reason is None else reason.code,
    }


def statement_body(
    statement: Statement,
    *,
    trace: bool = False,
    in_list: bool = False,
    queue_position: int | None = None,
    session_name: str | None = None,
    waiting_for: WaitingFor | None = None,
) -> StatementBody:
    """Return the body of a statement, without rows.

    Args:
        trace: Whether to include the stack trace of the error.
        in_list: Whether to shorten the message of the error.
        queue_position: Position in the queue of the session, if the response tells it.
        session_name: Name of the session, if it has one and the response contains it.
        waiting_for: Why the statement waits, if the response contains it.
    """
    failure = statement.failure
    if failure is not None and in_list:
        failure = failure.summarize()
    return fill(
        StatementBody,
        statement,
        session_name=session_name,
        kind=statement.spec.kind,
        statement=mask_sql(statement.spec.text),
        queue_position=queue_position,
        waiting_for=None if waiting_for is None else fill(WaitingBody, waiting_for),
        **show_reason(explain_statement(statement, waiting_for)),
        error=error_body(failure, trace=trace),
        result=_result_body(statement.result, statement.rows_written),
        rows=None,
        next_chunk=None,
    )


def execution_body(execution: StatementExecution) -> ExecutionBody:
    """Return the body of the plan and the stages of a statement."""
    return fill(
        ExecutionBody,
        execution,
        operators=[fill(OperatorBody, operator) for operator in execution.operators],
        stages=[fill(StageBody, stage) for stage in execution.stages],
    )


def session_body(session: Session, *, in_list: bool = False) -> SessionBody:
    """Return the body of a session, in a list with a short message of its error."""
    failure = session.failure
    if failure is not None and in_list:
        failure = failure.summarize()
    return fill(
        SessionBody,
        session,
        **_show_spec(session.spec),
        busy=session.active > 0,
        **show_fields(session, SessionFields),
        lost=list(map(mask_urls, session.lost)),
        error=error_body(failure),
    )


def _show_spec(spec: SessionSpec) -> dict[str, Any]:
    """Return the configuration of a session without its secrets."""
    locations = {name: list(map(mask_urls, getattr(spec, name))) for name in _LOCATIONS}
    return dict(spec) | {"conf": mask_values(spec.conf)} | locations


def event_body(event: Event) -> EventBody:
    """Return the body of an event."""
    return fill(EventBody, event)


def error_body(failure: Failure | None, *, trace: bool = False) -> ErrorBody | None:
    """Return the body of an error, with its stack trace if `trace` is set."""
    if failure is None:
        return None
    return fill(ErrorBody, failure, trace=failure.trace if trace else None)


def _result_body(result: ResultInfo | None, rows_written: int | None) -> ResultBody | None:
    if result is None:
        return None
    return fill(
        ResultBody,
        result,
        columns=_columns(result),
        row_count=result.row_count if rows_written is None else rows_written,
        rows_written=rows_written,
        flight=None,
    )


def _columns(result: ResultInfo) -> list[ColumnBody]:
    """Return the columns of a result; none if its schema cannot be read."""
    try:
        schema = parse_schema(result.spark_schema)
    except HeadraceError:
        return []
    return [ColumnBody(**column) for column in schema.describe()]


def deployment_body(status: DeploymentStatus) -> DeploymentBody:
    """Return the body for a deployment."""
    deployment, plan = status.deployment, status.deployment.plan
    changes = {change.name: change for change in status.changes}
    return fill(
        DeploymentBody,
        deployment,
        jobs=[_planned_body(job, changes.get(job.name)) for job in plan.jobs],
        errors=[ManifestErrorBody(**error.model_dump()) for error in plan.errors],
        notes=plan.notes,
        breaking=plan.breaking,
        has_changes=bool(plan.changes),
        state_location=plan.state_location,
    )


def job_body(status: JobStatus, queue: RunQueue | None = None) -> JobBody:
    """Return the body for a job.

    Args:
        queue: Its runs that wait for their turn; None in a list of jobs.
    """
    job, version = status.job, status.version
    batches = [each.last_batch for each, _why in status.queries if each.last_batch is not None]
    return fill(
        JobBody,
        job,
        version=None if version is None else version.version,
        session=None if version is None else version.spec.session.name,
        queries=[query.id for query, _why in status.queries],
        **show_reason(status.reason),
        freshness=None if status.freshness is None else _freshness_body(status.freshness),
        last_batch=max(batches, default=None),
        deployment=status.deployment_id,
        current=None if version is None else version_body(version),
        savepoints=[_savepoint_body(savepoint) for savepoint in status.savepoints],
        waiting_runs=None if queue is None else queue.waiting,
        seconds_between_starts=None if queue is None else queue.seconds_between_starts,
    )


def _freshness_body(freshness: Freshness) -> FreshnessBody:
    expected = freshness.expected
    return FreshnessBody(
        max_lag_seconds=freshness.max_lag.total_seconds(),
        lag_seconds=freshness.lag.total_seconds(),
        is_exceeded=freshness.is_exceeded,
        expected_run_seconds=None if expected is None else expected.total_seconds(),
        unwatched_tables=freshness.unwatched,
    )


def version_body(version: JobVersion) -> VersionBody:
    """Return the body for a version."""
    return fill(VersionBody, version, deployment=version.deployment_id, manifest=version.spec.text)


def _planned_body(job: PlannedJob, change: JobChange | None) -> PlannedJobBody:
    return fill(
        PlannedJobBody,
        job,
        step=None if change is None else change.step,
        failure=None if change is None else change.failure,
        written=[] if change is None else change.record.written,
    )


def _savepoint_body(savepoint: Savepoint) -> SavepointBody:
    content = savepoint.content
    return fill(
        SavepointBody,
        savepoint,
        files=None if content is None else content.files,
        bytes=None if content is None else content.bytes,
        is_clean=None if content is None else content.is_clean,
    )
