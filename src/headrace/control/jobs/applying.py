"""The application of a plan: the changes of its jobs, written before anything is started."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from headrace.config.settings import Settings
from headrace.control.jobs.job_changer import KIND
from headrace.control.jobs.places import new_run
from headrace.control.jobs.trigger_checks import find_trigger_problems, has_sources
from headrace.control.places import SessionPlaces, owner_folder
from headrace.errors import JobBusy, PlanNotApplicable, PlanOutdated
from headrace.files.places import identify, join
from headrace.model.deployment import (
    ChangeRecord,
    Deployment,
    Job,
    JobAction,
    JobVersion,
    PlannedJob,
    VersionSpec,
)
from headrace.model.job import JobDecision
from headrace.model.lifecycle import DeploymentState, JobState
from headrace.model.stream_query import StreamQuery
from headrace.store import operations
from headrace.store.database import Tx
from headrace.store.jobs import job_changes, jobs, triggers
from headrace.store.streams import stream_queries

_STOPPING = {JobAction.STOP, JobAction.DELETE}
_ID_DIGITS = 8
"""Digits of the id of a job in the names of its directories."""
_CLEAN = {JobDecision.START_CLEAN, JobDecision.RESTART_CLEAN}


def apply_plan(tx: Tx, settings: Settings, deployment: Deployment, *, actor: str) -> None:
    """Begin the changes of a locked deployment: all of them, or none.

    Raises:
        PlanNotApplicable: The deployment is not planned, or has errors.
        JobBusy: Another deployment changes one of the jobs.
        PlanOutdated: A job has changed since the plan was made.
    """
    if deployment.state is not DeploymentState.PLANNED:
        raise PlanNotApplicable(
            f"Deployment {deployment.id} cannot be applied: it is {deployment.state}.",
            hint="Make a new plan.",
        )
    plan = deployment.plan
    failed = [job.name for job in plan.jobs if job.decision is JobDecision.ERROR]
    if failed:
        raise PlanNotApplicable(
            f"The plan has errors, so that nothing is applied: {', '.join(failed)}."
        )
    _check_triggers(tx, deployment)
    job_changes.move_deployment(tx, deployment, DeploymentState.APPLYING, actor=actor)
    live = _live_queries_by_job(tx, deployment.owner)
    # Jobs are locked in the order of their names, so that two deployers cannot block each other.
    for planned in sorted(plan.changes, key=lambda job: job.name.casefold()):
        _begin_change(tx, settings, deployment, planned, live, actor=actor)
    if not plan.changes:
        applying = job_changes.get_deployment(tx, deployment.id)
        assert applying is not None
        job_changes.move_deployment(tx, applying, DeploymentState.APPLIED, actor=actor)


def _check_triggers(tx: Tx, deployment: Deployment) -> None:
    """Raise PlanNotApplicable if jobs follow others that were changed since the plan was made."""
    planned = {job.name: job for job in deployment.plan.changes}
    is_deletion = any(_action_of(deployment, job) is JobAction.DELETE for job in planned.values())
    if not is_deletion and not any(has_sources(job.spec) for job in planned.values()):
        return
    triggers.serialize_changes(tx, deployment.owner)
    changed = {name.casefold() for name in planned}
    specs = {name: job.spec for name, job in planned.items() if job.spec is not None}
    live = [
        job for job in jobs.list_live(tx, [deployment.owner]) if job.name.casefold() not in changed
    ]
    for others in _list_outcomes(tx, live):
        for problem in find_trigger_problems({**others, **specs})[:1]:
            raise PlanNotApplicable(problem.message, hint=problem.hint)


def _list_outcomes(tx: Tx, live: Sequence[Job]) -> list[dict[str, VersionSpec | None]]:
    """Return what jobs do if all changes in progress fail, and if all of them succeed."""
    listed = job_changes.list_changes(tx, [job.change_id for job in live if job.change_id])
    changes = {change.job_id: change.record for change in listed}
    after = {
        job.name: changes[job.id].new_version_id or job.version_id
        if job.id in changes
        else job.version_id
        for job in live
        if job.id not in changes or changes[job.id].action is not JobAction.DELETE
    }
    outcomes = [{job.name: job.version_id for job in live}, after]
    ids = {version_id for each in outcomes for version_id in each.values() if version_id}
    versions = jobs.list_versions(tx, ids)
    return [
        {
            name: versions[version_id].spec if version_id in versions else None
            for name, version_id in each.items()
        }
        for each in (outcomes if changes else outcomes[:1])
    ]


def _begin_change(
    tx: Tx,
    settings: Settings,
    deployment: Deployment,
    planned: PlannedJob,
    live: Mapping[str, list[StreamQuery]],
    *,
    actor: str,
) -> None:
    job = _lock_job(tx, deployment, planned, actor=actor)
    old = jobs.get_version(tx, job.version_id)
    action = _action_of(deployment, planned)
    was = None if planned.job_id is None else job.state
    record = ChangeRecord(
        action=action,
        decision=planned.decision,
        reason=planned.reason,
        old_version_id=job.version_id,
        old_run=job.run,
        old_query_ids=[query.id for query in live.get(job.name.casefold(), [])],
        was=was,
    )
    if action in _STOPPING:
        record = record.model_copy(
            update={"takes_savepoint": planned.takes_savepoint and job.run is not None}
        )
    else:
        update = _plan_run(tx, settings, deployment, planned, job, old)
        record = record.model_copy(update=update)
    change_id = job_changes.insert_change(tx, deployment.id, job, record, actor=actor)
    operations.insert_operation(tx, KIND, change_id, actor=actor)
    if was is not None:
        target = JobState.STOPPING if action in _STOPPING else JobState.DEPLOYING
        detail = {"deployment": deployment.id}
        jobs.transition(tx, job, target, actor=actor, failure=job.failure, detail=detail)


def _lock_job(tx: Tx, deployment: Deployment, planned: PlannedJob, *, actor: str) -> Job:
    """Return the job of a change, locked; a new job is inserted."""
    owner = deployment.owner
    if planned.job_id is None:
        present = jobs.find(tx, owner, planned.name)
        if present is not None:
            raise _outdated(planned, "it was deployed for the first time by another deployment")
        plan = deployment.plan
        place = plan.state_place or identify(plan.state_location)
        return jobs.insert_job(
            tx, owner, planned.name, plan.state_location, state_place=place, actor=actor
        )
    job = jobs.lock(tx, planned.job_id)
    if job is None or job.ended_at is not None:
        raise _outdated(planned, "it was deleted")
    if job.change_id is not None:
        raise describe_busy(tx, job)
    if job.generation != planned.generation:
        raise _outdated(planned, f"it is {job.state} now, since {job.updated_at:%H:%M:%S} UTC")
    return job


def _plan_run(
    tx: Tx,
    settings: Settings,
    deployment: Deployment,
    planned: PlannedJob,
    job: Job,
    old: JobVersion | None,
) -> dict[str, object]:
    """Return what the record of a change says about the new run. Insert the new version."""
    version = old
    if planned.spec is not None:
        version = _insert_version(tx, settings, deployment, planned, job, old)
    assert version is not None
    update: dict[str, object] = {"new_version_id": version.id}
    if planned.keeps_run:
        is_running = job.state is JobState.RUNNING
        is_copied = is_running or deployment.action is JobAction.SAVEPOINT
        return update | {"new_run": job.run, "takes_savepoint": is_copied}
    if version.spec.batch is not None:
        return update
    # The state of the replaced run is copied even if the new one does not need it: a rollback may.
    update |= {"new_run": new_run(version.version), "takes_savepoint": job.run is not None}
    if planned.restores_from is not None:
        return update | {
            "restores": True,
            "restore_id": planned.restores_from,
            "is_other_lineage": planned.is_other_lineage,
        }
    return update | {"restores": planned.decision is JobDecision.RESTART_FROM_SAVEPOINT}


def _insert_version(
    tx: Tx,
    settings: Settings,
    deployment: Deployment,
    planned: PlannedJob,
    job: Job,
    old: JobVersion | None,
) -> JobVersion:
    spec = planned.spec
    assert spec is not None
    is_same_query = (
        old is not None
        and old.spec.query_fingerprint == spec.query_fingerprint
        and planned.decision not in _CLEAN
        # Another lineage has another state, whatever its query is.
        and not planned.is_other_lineage
    )
    number = jobs.newest_version_number(tx, job.id) + 1
    if is_same_query and old is not None:
        number = old.version
    has_state = planned.decision not in _CLEAN
    base = planned.path_source or (old.spec if old is not None and has_state else None)
    return jobs.insert_version(
        tx,
        job,
        _choose_paths(settings, spec, base, job=job, version=number),
        version=number,
        query_id=old.query_id if is_same_query and old is not None else str(uuid.uuid4()),
        decision=planned.decision,
        reason=planned.reason,
        deployment_id=deployment.id,
        same_query_as=old if is_same_query else None,
    )


def _choose_paths(
    settings: Settings,
    spec: VersionSpec,
    base: VersionSpec | None,
    *,
    job: Job,
    version: int,
) -> VersionSpec:
    """Choose where the sinks of files without a path write.

    A version that continues with the state of another one continues in its directories: Spark
    keeps the log of the batches there. A version without state gets new directories.
    """
    known = {} if base is None else {query.name: query.spec for query in base.queries}
    queries = []
    for query in spec.queries:
        path = query.spec.path
        if query.needs_path:
            before = known.get(query.name)
            path = None if before is None or before.sink != query.spec.sink else before.path
            if path is None:
                # A job that was deleted and is deployed again begins with version 1 again.
                own = f"{job.name}-{job.id[-_ID_DIGITS:]}"
                parts = [f"jobs-{owner_folder(job.owner)}", own, str(version), query.directory]
                places = SessionPlaces(settings, spec.session.spec.profile, spec.session.spec.conf)
                start = places.to_hadoop_form(settings.streams_location)
                path = join(start, *filter(None, parts))
        chosen = query.spec.model_copy(update={"path": path})
        queries.append(query.model_copy(update={"spec": chosen}))
    return spec.model_copy(update={"queries": queries})


def _action_of(deployment: Deployment, planned: PlannedJob) -> JobAction:
    """Return what the change does: a deployment deletes the jobs that it prunes."""
    if deployment.action is JobAction.DEPLOY and planned.decision is JobDecision.STOP:
        return JobAction.DELETE
    return deployment.action


def _live_queries_by_job(tx: Tx, owner: str) -> dict[str, list[StreamQuery]]:
    queries: dict[str, list[StreamQuery]] = {}
    for query in stream_queries.list_live_of_jobs(tx, [owner]):
        queries.setdefault(query.scope.casefold(), []).append(query)
    return queries


def _outdated(planned: PlannedJob, reason: str) -> PlanOutdated:
    return PlanOutdated(
        f"The plan is out of date for the job {planned.name}: {reason}.", hint="Make a new plan."
    )


def describe_busy(tx: Tx, job: Job) -> JobBusy:
    """Return the error that names the deployment which changes a job."""
    change = None if job.change_id is None else job_changes.get(tx, job.change_id)
    by = "another deployment"
    if change is not None:
        deployment = job_changes.get_deployment(tx, change.deployment_id)
        applied = None if deployment is None else deployment.applied_at
        since = "" if applied is None else f", since {applied:%Y-%m-%d %H:%M:%S} UTC"
        by = f"deployment {change.deployment_id} of {change.owner}{since} (step {change.step})"
    return JobBusy(
        f"The job {job.name} is being changed by {by}.",
        hint="Wait until that deployment has ended, then make a new plan.",
    )
