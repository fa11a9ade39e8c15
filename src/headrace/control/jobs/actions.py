"""The plans of actions on one job: stop, start, savepoint, rollback, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.control.jobs.job_sessions import find_conflict, find_session
from headrace.control.jobs.plan_completion import judge_versions
from headrace.errors import JobStateConflict, JobStateMissing, VersionNotFound
from headrace.model.deployment import (
    DeploymentPlan,
    Job,
    JobAction,
    JobSession,
    JobVersion,
    PlannedJob,
    Savepoint,
    VersionOrigin,
)
from headrace.model.job import JobDecision
from headrace.model.lifecycle import JobState, SavepointState
from headrace.store.database import Tx
from headrace.store.jobs import jobs, savepoints, triggers
from headrace.store.streams import stream_queries

_SHOWN = 100


def plan_rollback(tx: Tx, job: Job, current: JobVersion, number: int | None) -> PlannedJob:
    """Return the plan of a rollback of a locked job.

    Args:
        number: Number of the version; None: the one deployed before.

    Raises:
        VersionNotFound: The job has no such version.
    """
    target = _find_target(tx, job, current, number)
    if target.spec.batch is not None:
        return PlannedJob(
            name=job.name,
            decision=JobDecision.UPDATE,
            reason=f"a user returns to version {target.version} (revision {target.revision})",
            spec=target.spec,
        )
    reason = f"a user returns to version {target.version} (revision {target.revision})"
    planned = PlannedJob(
        name=job.name,
        decision=JobDecision.RESTART_FROM_SAVEPOINT,
        reason=reason,
        spec=target.spec,
    )
    newest = find_newest(jobs.list_origins(tx, job.id), target.version)
    source = current if newest in {current.version, None} else _find_with_state(tx, job, newest)
    obstacle = _find_obstacle(source, target)
    if obstacle is None and source.id == current.id:
        return planned.model_copy(update={"path_source": current.spec})
    savepoint = None if obstacle else _find_savepoint(tx, job, source)
    if savepoint is not None:
        update = {
            "path_source": source.spec,
            "restores_from": savepoint.id,
            "is_other_lineage": True,
        }
        return planned.model_copy(update=update)
    cause = obstacle or f"the newest state of version {source.version} was not saved"
    return planned.model_copy(
        update={
            "decision": JobDecision.RESTART_CLEAN,
            "reason": f"{reason}; it begins without state: {cause}",
        }
    )


def find_newest(origins: Sequence[VersionOrigin], number: int) -> int | None:
    """Return the version that began last of those in the lineage of a version.

    Return None if no version of the lineage has run.
    """
    deployed = sorted((each for each in origins if each.has_state), key=lambda each: each.revision)
    parents: dict[int, int | None] = {}
    for each in deployed:
        parents.setdefault(each.version, each.parent)
    first = _find_first(parents, number)
    members = [each.version for each in deployed if _find_first(parents, each.version) == first]
    return members[-1] if members else None


def _find_first(parents: Mapping[int, int | None], number: int) -> int:
    """Return the version that began without state and whose state a version has continued."""
    parent = parents.get(number)
    while parent is not None and parent < number:
        number, parent = parent, parents.get(parent)
    return number


def _find_target(tx: Tx, job: Job, current: JobVersion, number: int | None) -> JobVersion:
    deployed = [
        version for version in jobs.history(tx, job.id, _SHOWN) if version.outcome == "deployed"
    ]
    others = [
        version
        for version in deployed
        if version.id != current.id and (number is None or version.version == number)
    ]
    if others:
        return others[0]
    wanted = "earlier version" if number is None else f"version {number}"
    known = ", ".join(str(version.version) for version in deployed) or "none"
    raise VersionNotFound(
        f"The job {job.name} has no {wanted} to return to. Deployed versions: {known}."
    )


def _find_with_state(tx: Tx, job: Job, number: int | None) -> JobVersion:
    found = None if number is None else jobs.find_with_state(tx, job.id, number)
    assert found is not None
    return found


def _find_obstacle(source: JobVersion, target: JobVersion) -> str | None:
    """Return why a version cannot continue from the state of another one, or None if it can."""
    if source.version == target.version:
        return None
    judged = judge_versions(source.spec, target.spec)
    if judged.is_compatible:
        return None
    return f"version {source.version} has continued its state since, and {judged.reason}"


def _find_savepoint(tx: Tx, job: Job, source: JobVersion) -> Savepoint | None:
    """Return the copy of the state with which a version has ended; None if there is none."""
    listed = savepoints.list_of_jobs(tx, [job.id])
    newest = next((each for each in listed if each.version == source.version), None)
    if newest is None or newest.state is not SavepointState.VERIFIED:
        return None
    return newest if newest.run == source.last_run else None


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
    if action is JobAction.DELETE:
        _check_followers(tx, job)
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


def _check_followers(tx: Tx, job: Job) -> None:
    """Raise JobStateConflict if other jobs follow a job that is to be deleted."""
    followers = triggers.list_followers(tx, job.owner, job.name)
    if followers:
        raise JobStateConflict(
            f"The job {job.name} cannot be deleted: {', '.join(followers)} would never run again,"
            " because its runs start theirs.",
            hint="Delete these jobs first, or deploy them with another schedule.",
        )


def _check_session(tx: Tx, job: Job, wanted: JobSession) -> None:
    """Raise SessionConflict if a job that is to start would wait for its session in vain."""
    running = [
        other
        for other in jobs.list_live(tx, [job.owner])
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
    if current.spec.batch is not None:
        return PlannedJob(
            name=job.name,
            decision=JobDecision.UPDATE,
            reason="a user starts its schedule",
            version=current.version,
            keeps_run=True,
        )
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
