"""From jobs and deployments to the bodies of responses."""

from __future__ import annotations

from headrace.api.http.job_schemas import (
    DeploymentBody,
    JobBody,
    ManifestErrorBody,
    PlannedJobBody,
    SavepointBody,
    VersionBody,
)
from headrace.control.jobs.service import DeploymentStatus, JobStatus
from headrace.model.deployment import JobChange, JobVersion, PlannedJob, Savepoint


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
