"""The plan of a deployment: manifests read, compared with the deployed jobs, checked by drivers.

A job that is unchanged and runs needs no driver. Every other job is analysed by the driver of its
session before anything is changed, which also shows that the session can start. The plan is an
operation, so that it survives the node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.control.context import NodeContext
from headrace.control.jobs.batch_plans import describe_batch_change
from headrace.control.jobs.downstream import (
    VersionChange,
    plan_comparison,
    read_comparison,
    submit_comparison,
)
from headrace.control.jobs.drafts import JobDraft, PlanRequest, raise_errors, read_drafts
from headrace.control.jobs.job_sessions import find_conflict, find_session, open_check_session
from headrace.control.jobs.places import (
    Comparison,
    JobPlaces,
    add_text,
    compare_versions,
    default_location,
    identity_of,
    normalize_location,
)
from headrace.control.jobs.plan_completion import Checks, decide_job
from headrace.control.jobs.tasks import read_end, submit_task
from headrace.control.jobs.trigger_checks import find_trigger_problems, list_source_keys
from headrace.control.jobs.view_lags import complete_view_lags
from headrace.control.limits import describe_owner, take_submit
from headrace.control.places import SessionPlaces, find_watch_denial
from headrace.errors import InvalidLocation, LeaseLost
from headrace.files.places import is_below
from headrace.model.deployment import (
    BreakingChange,
    DeploymentPlan,
    Job,
    JobAction,
    JobSession,
    JobVersion,
    ManifestError,
    OperationLease,
    PlannedFacts,
    PlannedJob,
    Savepoint,
    VersionSpec,
)
from headrace.model.job import JobDecision
from headrace.model.job_messages import (
    CheckedJobs,
    CheckJobs,
    CompareColumns,
    JobToCheck,
    QueryToCheck,
)
from headrace.model.lifecycle import DeploymentState, JobState, SavepointState
from headrace.store import operations
from headrace.store.clock import read_clock
from headrace.store.database import Tx
from headrace.store.jobs import job_changes, jobs, savepoints
from headrace.store.streams import stream_queries

KIND = "plan"
"""Kind of the operations that plan deployments."""
_JOBS_IN_TASK = 50
"""Largest number of jobs that one task checks."""
_POLL_SECONDS = 0.25
_MAX_NOTED = 10
"""Largest number of jobs that a note names."""


@dataclass(frozen=True, slots=True)
class _Deployed:
    """What the store holds of the jobs of an owner."""

    jobs: Mapping[str, Job]
    versions: Mapping[str, JobVersion]
    savepoints: Mapping[str, list[Savepoint]]
    finished: Collection[str]
    """Ids of the batch jobs whose rows are all written."""

    def version_of(self, job: Job | None) -> JobVersion | None:
        if job is None or job.version_id is None:
            return None
        return self.versions.get(job.version_id)


class JobPlanner:
    """Plans deployments."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._settings = context.settings
        self._secrets = context.secrets
        self._lease_seconds = context.lease_seconds
        self._actor = context.node_id

    def begin(self, owner: str, request: PlanRequest, *, actor: str) -> str:
        """Begin a plan, and return the id of its deployment.

        Raises:
            InvalidManifests: With every error that the files alone show.
            InvalidSetting: The profile does not exist.
            InvalidLocation: The state location is relative, or contains a password.
        """
        drafts, notes = read_drafts(request, self._settings)
        location = self._choose_location(owner, request)
        place = SessionPlaces(self._settings, request.profile, {}).identify(location)
        with self._database.write("jobs.plan") as tx:
            take_submit(tx, self._settings, describe_owner(tx, self._settings, owner))
            deployed = _read_deployed(tx, owner)
            raise_errors(_find_conflicts(tx, owner, drafts, deployed, location, place))
            raise_errors(self._find_denials(tx, owner, drafts))
            drafts, errors = complete_view_lags(tx, owner, drafts)
            raise_errors(errors)
            now = read_clock(tx.connection)
            planned = [_plan_job(draft, deployed, now) for draft in drafts]
            raise_errors(_list_batch_errors(planned))
            pruned = _find_undeclared(planned, deployed, place) if request.prune else []
            raise_errors(_find_trigger_errors(drafts, _list_others(deployed, drafts, pruned)))
            if request.prune:
                planned += _plan_pruned(planned, deployed, place)
            else:
                notes += _note_undeclared(planned, deployed, place)
            plan = DeploymentPlan(
                state_location=location, state_place=place, jobs=planned, notes=notes
            )
            checks = self._submit_checks(tx, owner, plan, deployed)
            plan = plan.model_copy(update={"check_ids": checks})
            plan = self._submit_comparison(tx, owner, plan, drafts, deployed)
            deployment_id = job_changes.insert_deployment(
                tx, owner, JobAction.DEPLOY, plan, actor=actor
            )
            if plan.task_ids:
                operations.insert_operation(tx, KIND, deployment_id, actor=actor)
            else:
                deployment = job_changes.lock_deployment(tx, deployment_id)
                assert deployment is not None
                job_changes.move_deployment(tx, deployment, DeploymentState.PLANNED, actor=actor)
        return deployment_id

    def advance(self, lease: OperationLease, deployment_id: str) -> float | None:
        """Complete a plan when its checks have ended. See `Advance`."""
        with self._database.read() as tx:
            deployment = job_changes.get_deployment(tx, deployment_id)
            task_ids = [] if deployment is None else deployment.plan.task_ids
            has_ended = all(read_end(tx, task_id) is not None for task_id in task_ids)
        if not has_ended:
            return _POLL_SECONDS
        with self._database.write("operation.plan") as tx:
            if not operations.renew(tx, lease, self._lease_seconds):
                raise LeaseLost(f"Operation {lease.id} has another node.")
            deployment = job_changes.lock_deployment(tx, deployment_id)
            if deployment is not None and deployment.state is DeploymentState.CHECKING:
                plan = self._complete(tx, deployment.plan)
                has_errors = bool(plan.errors)
                target = DeploymentState.REJECTED if has_errors else DeploymentState.PLANNED
                job_changes.move_deployment(tx, deployment, target, actor=self._actor, plan=plan)
            operations.finish(tx, lease)
        return None

    def _find_denials(self, tx: Tx, owner: str, drafts: list[JobDraft]) -> list[ManifestError]:
        """Return the errors of the jobs that follow files which their owner may not list."""
        errors = []
        for draft in drafts:
            files = None if draft.spec.batch is None else draft.spec.batch.rules.files
            if files is not None and files.on_files is not None:
                owners = self._secrets.list_owners(tx, owner)
                denial = find_watch_denial(self._settings, owners, files.on_files)
                if denial is not None:
                    errors.append(draft.error("location_denied", denial))
        return errors

    def _choose_location(self, owner: str, request: PlanRequest) -> str:
        chosen = request.state_location or self._settings.jobs.state_location
        if chosen is None:
            return default_location(self._settings.jobs_location, owner)
        location = normalize_location(chosen)
        own = default_location(self._settings.jobs_location, owner)
        if is_below(location, self._settings.jobs_location) and not is_below(location, own):
            raise InvalidLocation(
                f"state_location {location!r} is where Headrace keeps the jobs of the owners.",
                hint="Leave it out, or name a location elsewhere.",
            )
        return location

    def _submit_checks(
        self, tx: Tx, owner: str, plan: DeploymentPlan, deployed: _Deployed
    ) -> list[str]:
        """Submit the tasks that check the jobs, by session. Return their statements."""
        by_session: dict[str, list[PlannedJob]] = defaultdict(list)
        sessions: dict[str, JobSession] = {}
        for planned in plan.jobs:
            if planned.spec is not None and planned.spec.batch is None:
                session = planned.spec.session
                key = session.model_dump_json()
                sessions[key] = session
                by_session[key].append(planned)
        check_ids = []
        for key, members in by_session.items():
            session_id = open_check_session(tx, self._settings, owner, sessions[key])
            for start in range(0, len(members), _JOBS_IN_TASK):
                part = members[start : start + _JOBS_IN_TASK]
                to_check = [_job_to_check(planned, deployed) for planned in part]
                task = CheckJobs(state_location=plan.state_location, jobs=to_check)
                names = ", ".join(planned.name for planned in part[:5])
                check_ids.append(submit_task(tx, owner, session_id, task, f"check {names}"))
        return check_ids

    def _submit_comparison(
        self,
        tx: Tx,
        owner: str,
        plan: DeploymentPlan,
        drafts: list[JobDraft],
        deployed: _Deployed,
    ) -> DeploymentPlan:
        """Submit the task that finds what the plan would break, and return the plan with it."""
        task, notes = plan_comparison(tx, owner, _list_changes(plan, drafts, deployed))
        if task is None:
            return plan
        session_id = open_check_session(tx, self._settings, owner, drafts[0].spec.session)
        comparison_id = submit_comparison(tx, owner, session_id, task)
        update = {"comparison_id": comparison_id, "notes": [*plan.notes, *notes]}
        return plan.model_copy(update=update)

    def _complete(self, tx: Tx, plan: DeploymentPlan) -> DeploymentPlan:
        """Return the plan with the decisions that the outcomes of the checks allow."""
        checks = Checks()
        for check_id in plan.check_ids:
            ended = read_end(tx, check_id)
            assert ended is not None
            if ended.failure is not None:
                checks.session_failures.append(ended.failure)
            elif isinstance(ended.outcome, CheckedJobs):
                checks.add(ended.outcome)
        owner_jobs = [job.job_id for job in plan.jobs if job.job_id is not None]
        checks.savepoints = {
            savepoint.place: savepoint for savepoint in savepoints.list_of_jobs(tx, owner_jobs)
        }
        versions = _read_current_versions(tx, owner_jobs)
        decided = [decide_job(job, versions.get(job.job_id or ""), checks) for job in plan.jobs]
        found = (error for _job, errors in decided for error in errors)
        # An error of a definition is an error of each job that needs it.
        errors = list(dict.fromkeys([*checks.errors, *found]))
        breaking, notes = self._read_comparison(tx, plan)
        return plan.model_copy(
            update={
                "jobs": [planned for planned, _errors in decided],
                "errors": errors,
                "breaking": breaking,
                "notes": [*plan.notes, *notes],
            }
        )

    def _read_comparison(
        self, tx: Tx, plan: DeploymentPlan
    ) -> tuple[list[BreakingChange], list[str]]:
        if plan.comparison_id is None:
            return [], []
        task, ended = jobs.get_task(tx, plan.comparison_id), read_end(tx, plan.comparison_id)
        assert ended is not None
        return read_comparison(task if isinstance(task, CompareColumns) else None, ended)


def _read_deployed(tx: Tx, owner: str) -> _Deployed:
    live = jobs.list_live(tx, [owner])
    versions = jobs.list_versions(tx, [job.version_id for job in live if job.version_id])
    by_job: dict[str, list[Savepoint]] = defaultdict(list)
    stopped = [job.id for job in live if job.state is not JobState.RUNNING]
    for savepoint in savepoints.list_of_jobs(tx, stopped):
        if savepoint.state is SavepointState.VERIFIED:
            by_job[savepoint.job_id].append(savepoint)
    by_name = {job.name.casefold(): job for job in live}
    return _Deployed(by_name, versions, by_job, find_finished(tx, owner, live, versions))


def find_finished(
    tx: Tx, owner: str, live: Iterable[Job], versions: Mapping[str, JobVersion]
) -> set[str]:
    """Return the ids of the stopped jobs whose queries read no stream and have ended."""
    checkpoints: dict[str, set[str]] = {}
    for job in live:
        version = versions.get(job.version_id or "")
        if version is None or job.run is None or job.state is not JobState.STOPPED:
            continue
        # Only the plan of a streaming query is summarized.
        if not version.spec.summaries:
            places = JobPlaces(identity_of(job), job.name)
            queries = version.spec.queries
            checkpoints[job.id] = {places.checkpoint_of(job.run, query) for query in queries}
    if not checkpoints:
        return set()
    committed = stream_queries.find_committed(tx, owner, set().union(*checkpoints.values()))
    return {job_id for job_id, places in checkpoints.items() if places <= committed}


def _read_current_versions(tx: Tx, job_ids: list[str]) -> dict[str, JobVersion]:
    current = {}
    for job_id in job_ids:
        job = jobs.get(tx, job_id)
        version = None if job is None else jobs.get_version(tx, job.version_id)
        if version is not None:
            current[job_id] = version
    return current


def _find_conflicts(
    tx: Tx, owner: str, drafts: list[JobDraft], deployed: _Deployed, location: str, place: str
) -> list[ManifestError]:
    """Return the errors that only the deployed jobs show."""
    errors = []
    drafted = {draft.name.casefold() for draft in drafts}
    others = [
        (job, version)
        for job in deployed.jobs.values()
        if job.name.casefold() not in drafted and job.state is JobState.RUNNING
        for version in [deployed.version_of(job)]
        if version is not None and not version.spec.runs_in_pool
    ]
    for draft in drafts:
        job = deployed.jobs.get(draft.name.casefold())
        if job is None and jobs.is_place_taken(tx, draft.name, place):
            message = (
                f"The folder {draft.name} of {location} holds the state of another job. Two jobs of"
                " one name would overwrite each other's manifests there."
            )
            hint = "Choose another state location with --state-location, or rename the job."
            errors.append(draft.error("state_location_in_use", message, hint))
        if job is not None and identity_of(job) != place:
            message = (
                f"The job {job.name} keeps its state at {job.state_location}, not at {location}."
                " The state location of a job cannot change."
            )
            errors.append(draft.error("state_location_changed", message))
        session = draft.spec.session
        conflict = None
        if not draft.spec.runs_in_pool:
            conflict = find_conflict(session, find_session(tx, owner, session), others)
        if conflict is not None:
            errors.append(draft.error(conflict.code, conflict.message, conflict.hint or ""))
    return errors


def _find_trigger_errors(
    drafts: list[JobDraft], others: Mapping[str, VersionSpec | None]
) -> list[ManifestError]:
    """Return the errors of the jobs that follow others when a deployment is applied.

    Args:
        drafts: The jobs of the deployment.
        others: What the other deployed jobs of the owner do, by their names.
    """
    by_name = {draft.name: draft for draft in drafts}
    specs = {**others, **{name: draft.spec for name, draft in by_name.items()}}
    return [
        # A deployment can delete a job that one without a manifest follows.
        by_name.get(each.job, drafts[0]).error(each.code, each.message, each.hint)
        for each in find_trigger_problems(specs)
        if drafts
    ]


def _list_others(
    deployed: _Deployed, drafts: Iterable[JobDraft], pruned: Iterable[Job]
) -> dict[str, VersionSpec | None]:
    """Return what the deployed jobs do that stay as they are, by their names."""
    gone = {draft.name.casefold() for draft in drafts} | {job.name.casefold() for job in pruned}
    versions = {
        job.name: deployed.version_of(job) for key, job in deployed.jobs.items() if key not in gone
    }
    return {name: None if each is None else each.spec for name, each in versions.items()}


def _plan_job(draft: JobDraft, deployed: _Deployed, now: datetime) -> PlannedJob:
    """Return a job with what the store knows; `decide_job` completes it after the checks."""
    job = deployed.jobs.get(draft.name.casefold())
    version = deployed.version_of(job)
    common = {
        "name": draft.name,
        "path": draft.path,
        "session": draft.spec.session.name,
        "notes": draft.notes,
        "job_id": None if job is None else job.id,
        "generation": 0 if job is None else job.generation,
    }
    query_changed = version is None or (
        version.spec.query_fingerprint != draft.spec.query_fingerprint
    )
    configuration_changed = version is None or (
        version.spec.configuration_fingerprint != draft.spec.configuration_fingerprint
        or version.spec.session != draft.spec.session
        or list_source_keys(version.spec) != list_source_keys(draft.spec)
    )
    facts = PlannedFacts(
        is_new=version is None,
        is_running=job is not None and job.state is JobState.RUNNING,
        configuration_changed=configuration_changed or query_changed,
        query_changed=query_changed,
        on_query_change=draft.on_query_change,
    )
    is_changed = facts.configuration_changed
    if job is not None and job.change_id is not None:
        common["notes"] = [*draft.notes, "another deployment is changing the job"]
    has_finished = job is not None and job.id in deployed.finished
    if not is_changed and (facts.is_running or has_finished):
        reason = "it runs, and nothing has changed"
        if has_finished:
            reason = (
                "it has written all its rows, and nothing has changed. To write them again:"
                f" headrace job start {draft.name} --clean"
            )
        return PlannedJob(
            **common,
            decision=JobDecision.NONE,
            reason=reason,
            version=None if version is None else version.version,
        )
    comparison = Comparison([], "")
    if version is not None and is_changed:
        comparison = compare_versions(version.spec, draft.spec, name=draft.name)
    if draft.spec.batch is not None:
        return PlannedJob(
            **common | describe_batch_change(draft.spec, version, facts, comparison.changed, now),
            changed=comparison.changed,
            diff=comparison.diff,
            spec=add_text(draft.spec),
        )
    return PlannedJob(
        **common,
        decision=JobDecision.START_CLEAN,
        reason="it is being checked",
        changed=comparison.changed,
        diff=comparison.diff,
        spec=add_text(draft.spec),
        facts=facts,
        query_places=list(draft.query_places),
        setup_places=list(draft.setup_places),
        expect_place=draft.expect_place,
    )


def _list_batch_errors(planned: Iterable[PlannedJob]) -> list[ManifestError]:
    """Return the errors of batch jobs, which no driver checks."""
    return [
        ManifestError(
            path=job.path,
            code="job_kind_changed",
            message=f"{job.name}: {job.reason}.",
            hint=job.hint.replace("NAME", job.name),
            job=job.name,
        )
        for job in planned
        if job.decision is JobDecision.ERROR
    ]


def _find_undeclared(planned: list[PlannedJob], deployed: _Deployed, place: str) -> list[Job]:
    """Return the deployed jobs of a state location that no manifest names."""
    declared = {job.name.casefold() for job in planned}
    return [
        job
        for key, job in deployed.jobs.items()
        if key not in declared and identity_of(job) == place
    ]


def _note_undeclared(planned: list[PlannedJob], deployed: _Deployed, place: str) -> list[str]:
    """Return a note on the jobs that stay although no manifest of the deployment names them."""
    jobs = _find_undeclared(planned, deployed, place)
    if not jobs:
        return []
    shown = ", ".join(f"{job.name} ({job.state})" for job in jobs[:_MAX_NOTED])
    more = len(jobs) - _MAX_NOTED
    listed = shown if more <= 0 else f"{shown} and {more} more"
    note = f"No manifest of this deployment names these deployed jobs: {listed}."
    return [f"{note} They stay as they are; --prune stops and deletes them."]


def _plan_pruned(planned: list[PlannedJob], deployed: _Deployed, place: str) -> list[PlannedJob]:
    """Return the jobs of the state location without a manifest, which are to be deleted."""
    pruned = []
    for job in _find_undeclared(planned, deployed, place):
        version = deployed.version_of(job)
        pruned.append(
            PlannedJob(
                name=job.name,
                decision=JobDecision.STOP,
                reason="no manifest declares it: it stops with a savepoint and is deleted",
                job_id=job.id,
                generation=job.generation,
                session="" if version is None else version.spec.session.name,
            )
        )
    return pruned


def _list_changes(
    plan: DeploymentPlan, drafts: list[JobDraft], deployed: _Deployed
) -> list[VersionChange]:
    """Return the deployed jobs that stay, as they are and as they are after the plan."""
    drafted = {draft.name.casefold(): draft.spec for draft in drafts}
    deleted = {job.name.casefold() for job in plan.jobs} - drafted.keys()
    changes = []
    for key, job in deployed.jobs.items():
        version = deployed.version_of(job)
        if version is not None and key not in deleted:
            after = drafted.get(key, version.spec)
            changes.append(VersionChange(job.name, version.spec, after, is_planned=key in drafted))
    return changes


def _job_to_check(planned: PlannedJob, deployed: _Deployed) -> JobToCheck:
    assert planned.spec is not None
    assert planned.facts is not None
    job = deployed.jobs.get(planned.name.casefold())
    version = deployed.version_of(job)
    checkpoint, places = None, list[str]()
    if job is not None and version is not None and not planned.facts.is_running:
        if job.run is not None:
            checkpoint = JobPlaces(job.state_location, job.name).checkpoint(job.run)
        places = [
            savepoint.place
            for savepoint in deployed.savepoints.get(job.id, [])
            if savepoint.version == version.version
        ]
    return JobToCheck(
        name=planned.name,
        queries=[
            QueryToCheck(name=query.name, directory=query.directory, spec=query.spec)
            for query in planned.spec.queries
        ],
        checkpoint=checkpoint,
        savepoints=places,
    )


class PlanExpiry:
    """Ends old plans. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._actor = context.node_id
        self._seconds = context.settings.jobs.plan_retention.total_seconds()

    def run(self) -> None:
        """Expire the plans whose time is over."""
        with self._database.read() as tx:
            if not job_changes.has_old_plan(tx, self._seconds):
                return
        with self._database.write("jobs.expire_plans") as tx:
            job_changes.expire_plans(tx, self._seconds, actor=self._actor)
