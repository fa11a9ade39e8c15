"""Response bodies from the records that services return."""

from __future__ import annotations

from dataclasses import asdict

from headrace.control.jobs.service import DeploymentStatus, JobStatus
from headrace.control.streams.service import QueryStatus
from headrace.errors import HeadraceError
from headrace.frontends.rest.job_schemas import (
    DeploymentBody,
    JobBody,
    ManifestErrorBody,
    PlannedJobBody,
    SavepointBody,
    VersionBody,
)
from headrace.frontends.rest.schemas import (
    BatchBody,
    ColumnBody,
    ErrorBody,
    EventBody,
    NodeBody,
    PendingSinkBody,
    ResultBody,
    SessionBody,
    StatementBody,
    StreamBody,
    TransactionBody,
    WaitingBody,
    show_fields,
)
from headrace.grammar.masking import mask_urls, mask_values
from headrace.model.deployment import JobChange, JobVersion, PlannedJob, Savepoint
from headrace.model.event import Event
from headrace.model.failure import Failure
from headrace.model.lifecycle import StreamState
from headrace.model.node import NodeRecord
from headrace.model.request_fields import SessionFields
from headrace.model.result import ResultInfo
from headrace.model.session import Session
from headrace.model.statement import Statement, WaitingFor
from headrace.model.stream_query import PendingSink
from headrace.model.transaction import TransactionSummary
from headrace.results.schema import parse_schema


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
    return StatementBody(
        id=statement.id,
        session_id=statement.session_id,
        session_name=session_name,
        ordinal=statement.ordinal,
        kind=statement.spec.kind,
        state=statement.state,
        statement=statement.spec.text,
        owner=statement.owner,
        created_at=statement.created_at,
        waiting_since=statement.waiting_since,
        launched_at=statement.launched_at,
        started_at=statement.started_at,
        cancel_requested_at=statement.cancel_requested_at,
        cancel_reason=statement.cancel_reason,
        cancel_note=statement.cancel_note,
        ended_at=statement.ended_at,
        attempts=statement.attempts,
        queue_position=queue_position,
        waiting_for=None if waiting_for is None else WaitingBody(**asdict(waiting_for)),
        atomic=statement.atomic,
        note=statement.note,
        progress=statement.progress,
        error=_error_body(failure, trace=trace),
        result=_result_body(statement.result, statement.rows_written),
    )


def session_body(session: Session, *, in_list: bool = False) -> SessionBody:
    """Return the body of a session, in a list with a short message of its error."""
    failure = session.failure
    if failure is not None and in_list:
        failure = failure.summarize()
    spec = session.spec
    return SessionBody(
        profile=spec.profile,
        conf=mask_values(spec.conf),
        catalog=spec.catalog,
        database=spec.database,
        jars=list(map(mask_urls, spec.jars)),
        files=list(map(mask_urls, spec.files)),
        py_files=list(map(mask_urls, spec.py_files)),
        id=session.id,
        number=session.number,
        name=session.name,
        owner=session.owner,
        kind=session.kind,
        state=session.state,
        busy=session.active > 0,
        **show_fields(session, SessionFields),
        parallelism=session.parallelism,
        pool=session.pool,
        warm=session.warm,
        streams=session.streams,
        epoch=session.epoch,
        lost=list(map(mask_urls, session.lost)),
        driver=session.driver,
        created_at=session.created_at,
        started_at=session.started_at,
        ended_at=session.ended_at,
        last_update_time=session.last_update_time,
        error=_error_body(failure, trace=False),
    )


def transaction_body(transaction: TransactionSummary) -> TransactionBody:
    """Return the body of a table transaction."""
    return TransactionBody(
        id=transaction.id,
        statement_id=transaction.statement_id,
        session_id=transaction.session_id,
        state=transaction.state,
        catalog=transaction.catalog,
        target=transaction.target,
        orphaned=transaction.orphaned,
        attempts=transaction.attempts,
        retry_at=transaction.retry_at,
        last_error=_mask_optional(transaction.last_error),
        created_at=transaction.created_at,
        ended_at=transaction.ended_at,
    )


def pending_sink_body(sink: PendingSink) -> PendingSinkBody:
    """Return the body of a sink that is to be cleared."""
    return PendingSinkBody(
        query_id=sink.query_id,
        name=f"{sink.scope}.{sink.name}",
        session_id=sink.session_id,
        state=sink.state,
        attempts=sink.attempts,
        last_error=_mask_optional(sink.last_error),
    )


def node_body(node: NodeRecord) -> NodeBody:
    """Return the body of a node."""
    return NodeBody(
        id=node.id,
        address=node.address,
        version=node.version,
        state=node.state,
        profiles=node.profiles,
        backends=node.backends,
        host=None if node.host is None else node.host.get("name"),
        link_version=node.link_version,
        started_at=node.started_at,
        lease_until=node.lease_until,
        ended_at=node.ended_at,
        confirmed_gone_at=node.confirmed_gone_at,
    )


def stream_body(status: QueryStatus) -> StreamBody:
    """Return the body of a streaming query."""
    query = status.query
    return StreamBody(
        id=query.id,
        scope=query.scope,
        name=query.name,
        owner=query.owner,
        state=query.state,
        wanted=query.wanted,
        session_id=query.session_id,
        statement_id=query.statement_id,
        statement=status.statement,
        sink=query.spec.sink,
        guarantee=query.spec.guarantee,
        path=_mask_optional(query.spec.path),
        checkpoint=_mask_optional(query.spec.checkpoint),
        attempt=query.attempt,
        previous_id=query.previous_id,
        failures=query.failures,
        retry_at=query.retry_at,
        last_error=_error_body(query.last_error, trace=False),
        run_id=query.run_id,
        last_batch=query.last_batch,
        created_at=query.created_at,
        started_at=query.started_at,
        healthy_since=query.healthy_since,
        ended_at=query.ended_at,
        end_reason=query.end_reason if query.state is StreamState.STOPPED else None,
        progress=[BatchBody(**batch.model_dump()) for batch in status.progress],
    )


def event_body(event: Event) -> EventBody:
    """Return the body of an event."""
    return EventBody(
        cursor=event.cursor,
        entity=event.entity,
        entity_id=event.entity_id,
        source=event.source,
        target=event.target,
        at=event.at,
        actor=event.actor,
        detail=event.detail,
    )


def _error_body(failure: Failure | None, *, trace: bool) -> ErrorBody | None:
    if failure is None:
        return None
    fields = failure.model_dump()
    # Spark quotes the URLs that it cannot read.
    fields |= {name: mask_urls(fields[name]) for name in ("message", "trace") if fields[name]}
    return ErrorBody(**fields if trace else fields | {"trace": None})


def _mask_optional(text: str | None) -> str | None:
    return None if text is None else mask_urls(text)


def _result_body(result: ResultInfo | None, rows_written: int | None) -> ResultBody | None:
    if result is None:
        return None
    return ResultBody(
        columns=_columns(result),
        row_count=result.row_count if rows_written is None else rows_written,
        rows_written=rows_written,
        byte_count=result.byte_count,
        chunks=result.chunks,
        truncated=result.truncated,
        time_zone=result.time_zone,
        disposition=result.disposition,
        expires_at=result.expires_at,
        gone=result.gone,
        gone_reason=result.gone_reason,
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
    return DeploymentBody(
        id=deployment.id,
        action=deployment.action,
        state=deployment.state,
        jobs=[_planned_body(job, changes.get(job.name)) for job in plan.jobs],
        errors=[ManifestErrorBody(**error.model_dump()) for error in plan.errors],
        notes=plan.notes,
        has_changes=bool(plan.changes),
        state_location=plan.state_location,
        created_at=deployment.created_at,
        applied_at=deployment.applied_at,
        ended_at=deployment.ended_at,
    )


def job_body(status: JobStatus) -> JobBody:
    """Return the body for a job."""
    job, version = status.job, status.version
    batches = [query.last_batch for query in status.queries if query.last_batch is not None]
    return JobBody(
        id=job.id,
        name=job.name,
        state=job.state,
        version=None if version is None else version.version,
        session=None if version is None else version.spec.session.name,
        state_location=job.state_location,
        queries=[query.id for query in status.queries],
        last_batch=max(batches, default=None),
        deployment=status.deployment_id,
        failure=job.failure,
        created_at=job.created_at,
        updated_at=job.updated_at,
        current=None if version is None else version_body(version),
        savepoints=[_savepoint_body(savepoint) for savepoint in status.savepoints],
    )


def version_body(version: JobVersion) -> VersionBody:
    """Return the body for a version."""
    return VersionBody(
        version=version.version,
        revision=version.revision,
        query_id=version.query_id,
        query_created_at=version.query_created_at,
        decision=version.decision,
        reason=version.reason,
        from_state=version.from_state,
        outcome=version.outcome,
        deployment=version.deployment_id,
        created_at=version.created_at,
        manifest=version.spec.text,
    )


def _planned_body(job: PlannedJob, change: JobChange | None) -> PlannedJobBody:
    return PlannedJobBody(
        name=job.name,
        path=job.path,
        decision=job.decision,
        reason=job.reason,
        hint=job.hint,
        version=job.version,
        session=job.session,
        changed=job.changed,
        diff=job.diff,
        notes=job.notes,
        step=None if change is None else change.step,
        failure=None if change is None else change.failure,
        written=[] if change is None else change.record.written,
    )


def _savepoint_body(savepoint: Savepoint) -> SavepointBody:
    content = savepoint.content
    return SavepointBody(
        id=savepoint.id,
        version=savepoint.version,
        run=savepoint.run,
        place=savepoint.place,
        state=savepoint.state,
        files=None if content is None else content.files,
        bytes=None if content is None else content.bytes,
        is_clean=None if content is None else content.is_clean,
        created_at=savepoint.created_at,
    )
