"""The plans of actions on one job: stop, start, savepoint, rollback, delete."""

from __future__ import annotations

from headrace.control.jobs.job_sessions import find_conflict, find_session
from headrace.control.jobs.rollback import plan_rollback
from headrace.errors import JobStateConflict, JobStateMissing
from headrace.model.deployment import (
    DeploymentPlan,
    Job,
    JobAction,
    JobSession,
    JobVersion,
    PlannedJob,
)
from headrace.model.job import JobDecision
from headrace.model.lifecycle import JobState
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.streams import stream_queries


def plan_action(
    tx: Tx,
    job: Job,
    action: JobAction,
    *,
    clean: bool = False,
    version: int | None = None,
    takes_savepoint: bool = True,
) -> DeploymentPlan:
    """Return the plan of an action on a locked job.

    Args:
        clean: For a start: begin without state.
        version: For a rollback: number of the version; None: the one deployed before.
        takes_savepoint: For a stop or a deletion: whether the state is copied.

    Raises:
        SessionConflict: The session of the job has another configuration, and is in use.
        JobStateConflict: The state of the job does not allow the action.
        JobStateMissing: The job has no state to continue from.
        VersionNotFound: The job has no such version.
    """
    current = jobs.get_version(tx, job.version_id)
    if current is None and action is not JobAction.DELETE:
        raise JobStateConflict(
            f"The job {job.name} was never deployed: it is {job.state}.",
            hint="Deploy its manifest again.",
        )
    if action in {JobAction.STOP, JobAction.DELETE}:
        planned = _plan_stop(tx, job, action, takes_savepoint=takes_savepoint)
    elif action is JobAction.SAVEPOINT:
        planned = _plan_savepoint(job)
    elif action is JobAction.START:
        planned = _plan_start(job, current, clean=clean)
    else:
        assert current is not None
        planned = plan_rollback(tx, job, current, version)
    starts = planned.decision is not JobDecision.STOP
    version_spec = planned.spec or (None if current is None else current.spec)
    if starts and version_spec is not None:
        _check_session(tx, job, version_spec.session)
    complete = planned.model_copy(
        update={
            "job_id": job.id,
            "generation": job.generation,
            "session": "" if version_spec is None else version_spec.session.name,
        }
    )
    return DeploymentPlan(state_location=job.state_location, jobs=[complete])


def _check_session(tx: Tx, job: Job, wanted: JobSession) -> None:
    """Raise SessionConflict if a job that is to start would wait for its session in vain."""
    running = [
        other
        for other in jobs.list_live(tx, job.owner)
        if other.state is JobState.RUNNING and other.id != job.id
    ]
    versions = jobs.list_versions(tx, [each.version_id for each in running if each.version_id])
    others = [(each, versions[each.version_id]) for each in running if each.version_id in versions]
    conflict = find_conflict(wanted, find_session(tx, job.owner, wanted), others)
    if conflict is not None:
        raise conflict


def _plan_stop(tx: Tx, job: Job, action: JobAction, *, takes_savepoint: bool) -> PlannedJob:
    # A job that has failed can have another query that still runs.
    runs = job.state is JobState.RUNNING or stream_queries.has_live(tx, job.owner, job.name)
    if action is JobAction.STOP and not runs:
        raise JobStateConflict(
            f"The job {job.name} cannot be stopped: it is {job.state}.",
            hint=f"headrace job start {job.name} starts it, headrace job delete {job.name} removes"
            " it.",
        )
    reason = "it is deleted" if action is JobAction.DELETE else "a user stops it"
    if not takes_savepoint:
        reason += ", without a savepoint"
    return PlannedJob(
        name=job.name,
        decision=JobDecision.STOP,
        reason=reason,
        takes_savepoint=takes_savepoint,
    )


def _plan_savepoint(job: Job) -> PlannedJob:
    if job.run is None:
        raise JobStateMissing(f"The job {job.name} has no state to copy.")
    reason = "it stops for the copy of its state"
    if job.state is JobState.RUNNING:
        decision = JobDecision.RESUME_LATEST
    else:
        decision, reason = JobDecision.STOP, "its state is copied; it does not run"
    return PlannedJob(name=job.name, decision=decision, reason=reason, keeps_run=True)


def _plan_start(job: Job, current: JobVersion | None, *, clean: bool) -> PlannedJob:
    if job.state is JobState.RUNNING:
        raise JobStateConflict(
            f"The job {job.name} cannot be started: it is {job.state}.",
            hint=f"headrace job stop {job.name} stops it. To change it, deploy its manifest.",
        )
    assert current is not None
    if clean:
        return PlannedJob(
            name=job.name,
            decision=JobDecision.START_CLEAN,
            reason="a user starts it without state",
            spec=current.spec,
        )
    if job.run is not None:
        return PlannedJob(
            name=job.name,
            decision=JobDecision.RESUME_LATEST,
            reason="a user starts it; it continues from its last checkpoint",
            version=current.version,
            keeps_run=True,
        )
    raise JobStateMissing(
        f"The job {job.name} has no state to continue from.",
        hint=f"Start it without state: headrace job start {job.name} --clean.",
    )
