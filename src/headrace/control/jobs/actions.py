"""The plans of actions on one job: stop, start, savepoint, rollback, delete."""

from __future__ import annotations

from headrace.errors import JobStateConflict, JobStateMissing, VersionNotFound
from headrace.model.deployment import DeploymentPlan, Job, JobAction, JobVersion, PlannedJob
from headrace.model.job import JobDecision
from headrace.model.lifecycle import JobState, SavepointState
from headrace.store import jobs, savepoints
from headrace.store.database import Tx

_SHOWN = 100


def plan_action(
    tx: Tx,
    job: Job,
    action: JobAction,
    *,
    clean: bool = False,
    version: int | None = None,
) -> DeploymentPlan:
    """Return the plan of an action on a locked job.

    Args:
        clean: For a start: begin without state.
        version: For a rollback: number of the version; None: the one deployed before.

    Raises:
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
        planned = _plan_stop(job, action)
    elif action is JobAction.SAVEPOINT:
        planned = _plan_savepoint(job)
    elif action is JobAction.START:
        planned = _plan_start(job, current, clean=clean)
    else:
        planned = _plan_rollback(tx, job, current, version)
    complete = planned.model_copy(
        update={
            "job_id": job.id,
            "generation": job.generation,
            "session": "" if current is None else current.spec.session.name,
        }
    )
    return DeploymentPlan(state_location=job.state_location, jobs=[complete])


def _plan_stop(job: Job, action: JobAction) -> PlannedJob:
    if action is JobAction.STOP and job.state is not JobState.RUNNING:
        raise JobStateConflict(f"The job {job.name} cannot be stopped: it is {job.state}.")
    reason = "it is deleted" if action is JobAction.DELETE else "a user stops it"
    return PlannedJob(name=job.name, decision=JobDecision.STOP, reason=reason)


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
        raise JobStateConflict(f"The job {job.name} is running already.")
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


def _plan_rollback(tx: Tx, job: Job, current: JobVersion | None, number: int | None) -> PlannedJob:
    target = _find_target(tx, job, current, number)
    verified = [
        savepoint
        for savepoint in savepoints.list_of_jobs(tx, [job.id])
        if savepoint.version == target.version and savepoint.state is SavepointState.VERIFIED
    ]
    reason = f"a user returns to version {target.version} (revision {target.revision})"
    planned = PlannedJob(
        name=job.name,
        decision=JobDecision.RESTART_FROM_SAVEPOINT,
        reason=reason,
        spec=target.spec,
        path_source=target.spec,
    )
    if verified:
        return planned.model_copy(update={"restores_from": verified[0].id})
    is_same_query = current is not None and current.version == target.version
    if is_same_query and job.run is not None:
        return planned
    return planned.model_copy(
        update={
            "decision": JobDecision.RESTART_CLEAN,
            "reason": f"{reason}; no savepoint of that version exists, so that it begins anew",
            "path_source": None,
        }
    )


def _find_target(tx: Tx, job: Job, current: JobVersion | None, number: int | None) -> JobVersion:
    deployed = [
        version for version in jobs.history(tx, job.id, _SHOWN) if version.outcome == "deployed"
    ]
    others = [
        version
        for version in deployed
        if (current is None or version.id != current.id)
        and (number is None or version.version == number)
    ]
    if others:
        return others[0]
    wanted = "an earlier version" if number is None else f"version {number}"
    known = ", ".join(str(version.version) for version in deployed) or "none"
    raise VersionNotFound(
        f"The job {job.name} has no {wanted} to return to. Deployed versions: {known}."
    )
