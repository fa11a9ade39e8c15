"""The service for jobs: plan, apply, find, list, and the actions on one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.control.context import NodeContext
from headrace.control.jobs.actions import plan_action
from headrace.control.jobs.applying import apply_plan, describe_busy
from headrace.control.jobs.drafts import PlanRequest
from headrace.control.jobs.freshness import measure
from headrace.control.jobs.planning import JobPlanner
from headrace.control.jobs.todays_plan import TodaysPlan, find_todays_plan
from headrace.control.policy import (
    HIDDEN_TEXT,
    Action,
    Caller,
    check,
    find_named,
    listed_owners,
    may,
    require_creator,
    resolve_owner,
)
from headrace.control.streams.service import explain_queries
from headrace.errors import DeploymentNotFound, JobNotFound
from headrace.model.deployment import (
    Deployment,
    Job,
    JobAction,
    JobChange,
    JobVersion,
    Savepoint,
)
from headrace.model.freshness import Freshness
from headrace.model.ids import looks_like_id
from headrace.model.lifecycle import DeploymentState, JobState
from headrace.model.reasons import Reason, explain_job, explain_lag
from headrace.model.stream_query import StreamQuery
from headrace.store.database import Tx
from headrace.store.jobs import file_watches, job_changes, jobs, savepoints, triggers
from headrace.store.streams import stream_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentStatus:
    """A deployment with its changes."""

    deployment: Deployment
    changes: list[JobChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job with its deployed version, its live queries and its savepoints."""

    job: Job
    version: JobVersion | None
    queries: list[tuple[StreamQuery, Reason | None]]
    """With a reason each, if it does not run."""
    savepoints: list[Savepoint]
    deployment_id: str | None
    reason: Reason | None
    """Why the job does not run as it should."""
    freshness: Freshness | None = None
    """How far it is behind its tables; None: it has no `max-lag`. In a list of jobs, None."""


class Jobs:
    """Jobs of all callers, served by one node."""

    def __init__(self, context: NodeContext, planner: JobPlanner) -> None:
        self._database = context.database
        self._settings = context.settings
        self._planner = planner

    def plan(self, caller: Caller, request: PlanRequest) -> DeploymentStatus:
        """Plan a deployment. Return it while it is checked, or with its plan.

        Raises:
            NotPermitted: The caller has no role that lets it deploy jobs, or is not the owner.
            InvalidManifests: With every error that the files alone show.
            InvalidSetting: The profile does not exist.
        """
        require_creator(caller, "jobs")
        owner = resolve_owner(caller, request.owner)
        return self.get_deployment(caller, self._planner.begin(owner, request, actor=caller.actor))

    def apply(self, caller: Caller, deployment_id: str) -> DeploymentStatus:
        """Apply a plan. Raise as `apply_plan` does, and DeploymentNotFound."""
        with self._database.write("jobs.apply") as tx:
            deployment = job_changes.lock_deployment(tx, deployment_id)
            check(caller, Action.CHANGE, deployment, _deployment_not_found(deployment_id))
            assert deployment is not None
            apply_plan(tx, self._settings, deployment, actor=caller.actor)
            return _read_deployment(tx, deployment_id)

    def get_deployment(self, caller: Caller, deployment_id: str) -> DeploymentStatus:
        """Return a deployment of the caller. Raise DeploymentNotFound."""
        with self._database.read() as tx:
            deployment = job_changes.get_deployment(tx, deployment_id)
            check(caller, Action.READ, deployment, _deployment_not_found(deployment_id))
            return _hide_diffs(caller, _read_deployment(tx, deployment_id))

    def list_deployments(
        self, caller: Caller, limit: int, *, all_owners: bool = False
    ) -> list[DeploymentStatus]:
        """Return the last deployments, newest first, of the owners that `caller` lists."""
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            deployments = job_changes.list_deployments(tx, owners, limit)
            changes = job_changes.of_deployments(tx, [each.id for each in deployments])
        return [
            _hide_diffs(
                caller,
                DeploymentStatus(deployment=deployment, changes=changes.get(deployment.id, [])),
            )
            for deployment in deployments
        ]

    def list_jobs(self, caller: Caller, *, all_owners: bool = False) -> list[JobStatus]:
        """Return all jobs of the owners that `caller` lists, by name, without their savepoints."""
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            found = jobs.list_live(tx, owners)
            by_version = {job.version_id: job for job in found if job.version_id is not None}
            versions = {
                id_: _hide_manifest(caller, by_version[id_], version)
                for id_, version in jobs.list_versions(tx, list(by_version)).items()
            }
            changes = _find_changes(tx, found)
            live = stream_queries.list_live_of_jobs(tx, owners)
            reasons = explain_queries(tx, self._settings, live)
            problems = file_watches.find_problems(tx)
        return [
            _make_status(
                job,
                None if job.version_id is None else versions.get(job.version_id),
                changes.get(job.id),
                [(each, reasons.get(each.id)) for each in _of_job(live, job)],
                [],
                problems.get(job.id),
            )
            for job in found
        ]

    def get_job(self, caller: Caller, name: str) -> JobStatus:
        """Return a job of the caller. Raise JobNotFound."""
        with self._database.read() as tx:
            job = find_job(tx, caller, name)
            live = _of_job(stream_queries.list_live_of_jobs(tx, [job.owner]), job)
            reasons = explain_queries(tx, self._settings, live)
            version = jobs.get_version(tx, job.version_id)
            status = _make_status(
                job,
                None if version is None else _hide_manifest(caller, job, version),
                _find_changes(tx, [job]).get(job.id),
                [(each, reasons.get(each.id)) for each in live],
                savepoints.list_of_jobs(tx, [job.id]),
                file_watches.find_problem(tx, job.id),
            )
            freshness = measure(tx, job.id)
        if freshness is None:
            return status
        reason = status.reason or explain_lag(freshness)
        return replace(status, freshness=freshness, reason=reason)

    def list_versions(self, caller: Caller, name: str, limit: int) -> list[JobVersion]:
        """Return the versions of a job, newest first. Raise JobNotFound."""
        with self._database.read() as tx:
            job = find_job(tx, caller, name)
            return [_hide_manifest(caller, job, each) for each in jobs.history(tx, job.id, limit)]

    def find_todays_plan(self, caller: Caller, name: str) -> TodaysPlan | None:
        """Return what a plan would decide about the deployed manifest of a job now.

        None: a change of the job is in progress. Raise JobNotFound.
        """
        with self._database.read() as tx:
            return find_todays_plan(tx, find_job(tx, caller, name))

    def stop(self, caller: Caller, name: str, *, takes_savepoint: bool = True) -> DeploymentStatus:
        """Stop a job with a savepoint. Raise JobNotFound, JobBusy and JobStateConflict."""
        return self._act(caller, name, JobAction.STOP, takes_savepoint=takes_savepoint)

    def savepoint(self, caller: Caller, name: str) -> DeploymentStatus:
        """Copy the state of a job. Raise as `stop` does, and JobStateMissing."""
        return self._act(caller, name, JobAction.SAVEPOINT)

    def start(self, caller: Caller, name: str, *, clean: bool) -> DeploymentStatus:
        """Start a job from its latest state, or without state.

        Raise as `savepoint` does, and SessionConflict.
        """
        return self._act(caller, name, JobAction.START, clean=clean)

    def roll_back(self, caller: Caller, name: str, version: int | None) -> DeploymentStatus:
        """Return to an earlier version. Raise as `start` does, and VersionNotFound."""
        return self._act(caller, name, JobAction.ROLLBACK, version=version)

    def delete(
        self, caller: Caller, name: str, *, takes_savepoint: bool = True
    ) -> DeploymentStatus:
        """Stop a job with a savepoint, and remove it. Raise as `stop` does."""
        return self._act(caller, name, JobAction.DELETE, takes_savepoint=takes_savepoint)

    def _act(
        self,
        caller: Caller,
        name: str,
        action: JobAction,
        *,
        clean: bool = False,
        version: int | None = None,
        takes_savepoint: bool = True,
    ) -> DeploymentStatus:
        with self._database.write("jobs.act") as tx:
            found = find_job(tx, caller, name, Action.CHANGE)
            # Before the job: deployments lock in this order.
            triggers.serialize_changes(tx, found.owner)
            job = jobs.lock(tx, found.id)
            assert job is not None
            if job.change_id is not None:
                raise describe_busy(tx, job)
            plan = plan_action(
                tx, job, action, clean=clean, version=version, takes_savepoint=takes_savepoint
            )
            deployment_id = job_changes.insert_deployment(
                tx, job.owner, action, plan, actor=caller.actor
            )
            deployment = job_changes.lock_deployment(tx, deployment_id)
            assert deployment is not None
            job_changes.move_deployment(tx, deployment, DeploymentState.PLANNED, actor=caller.actor)
            planned = job_changes.lock_deployment(tx, deployment_id)
            assert planned is not None
            apply_plan(tx, self._settings, planned, actor=caller.actor)
            return _read_deployment(tx, deployment_id)


def find_job(tx: Tx, caller: Caller, name: str, action: Action = Action.READ) -> Job:
    """Return a live job on which the caller may act, by its name or id.

    Raise JobNotFound, or NotPermitted if the caller may read it, and do no more.
    """
    if looks_like_id(name):
        found = jobs.get(tx, name)
        job = None if found is None or found.state is JobState.DELETED else found
    else:
        own = jobs.find(tx, caller.owner, name)
        job = find_named(caller, own, lambda owners: jobs.list_named(tx, owners, name))
    return check(caller, action, job, JobNotFound(f"There is no job {name[:100]!r}."))


def _hide_manifest(caller: Caller, job: Job, version: JobVersion) -> JobVersion:
    """Return a version as a caller may see it: with or without its manifest."""
    if may(caller, Action.READ_CONTENT, job):
        return version
    return replace(version, spec=version.spec.model_copy(update={"text": HIDDEN_TEXT}))


def _hide_diffs(caller: Caller, status: DeploymentStatus) -> DeploymentStatus:
    """Return a deployment as a caller may see it: with or without the diffs of manifests."""
    deployment = status.deployment
    if may(caller, Action.READ_CONTENT, deployment):
        return status
    planned = [job.model_copy(update={"diff": HIDDEN_TEXT}) for job in deployment.plan.jobs]
    plan = deployment.plan.model_copy(update={"jobs": planned})
    return replace(status, deployment=replace(deployment, plan=plan))


def _of_job(live: Sequence[StreamQuery], job: Job) -> list[StreamQuery]:
    return [query for query in live if (query.owner, query.scope) == (job.owner, job.name)]


def _find_changes(tx: Tx, found: Sequence[Job]) -> dict[str, JobChange]:
    """Return the changes of these jobs that are in progress, by the id of the job."""
    ids = [job.change_id for job in found if job.change_id is not None]
    return {each.job_id: each for each in job_changes.list_changes(tx, ids)} if ids else {}


def _make_status(
    job: Job,
    version: JobVersion | None,
    change: JobChange | None,
    queries: list[tuple[StreamQuery, Reason | None]],
    found: list[Savepoint],
    files_problem: str | None,
) -> JobStatus:
    return JobStatus(
        job=job,
        version=version,
        queries=queries,
        savepoints=found,
        deployment_id=None if change is None else change.deployment_id,
        reason=explain_job(
            job,
            change,
            queries,
            is_batch=version is not None and version.spec.batch is not None,
            files_problem=files_problem,
        ),
    )


def _read_deployment(tx: Tx, deployment_id: str) -> DeploymentStatus:
    deployment = job_changes.get_deployment(tx, deployment_id)
    assert deployment is not None
    return DeploymentStatus(
        deployment=deployment, changes=job_changes.of_deployment(tx, deployment_id)
    )


def _deployment_not_found(deployment_id: str) -> DeploymentNotFound:
    return DeploymentNotFound(f"There is no deployment {deployment_id[:100]!r}.")
