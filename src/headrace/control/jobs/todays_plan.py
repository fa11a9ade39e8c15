"""What a deployment of the current manifest of a job would do now, as far as the store tells.

A plan asks drivers about jobs that are to start. A page waits for no driver: where only a driver
knows, it shows the decision that was recorded last.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headrace.control.jobs.planning import find_finished
from headrace.deploy.decision import JobFacts, decide
from headrace.model.deployment import BreakingChange, Job
from headrace.model.job import JobDecision, OnQueryChange
from headrace.model.lifecycle import DeploymentState, JobState, SavepointState
from headrace.store.database import Tx
from headrace.store.jobs import job_changes, jobs, savepoints

_DEPLOYMENTS = 3
"""Last deployments among which a plan that waits is searched."""


class PlanSource(StrEnum):
    """Where a decision of today's plan is from."""

    DERIVED = "derived"  # from the store: a plan would decide the same
    RECORDED = (
        "recorded"  # of the deployed version: only a driver can tell what a plan would decide
    )


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """A plan for another manifest of the job, which is not applied."""

    deployment_id: str
    decision: JobDecision
    reason: str
    created_at: datetime
    breaking: list[BreakingChange]
    """What the whole plan breaks."""


@dataclass(frozen=True, slots=True)
class TodaysPlan:
    """The decision about a job."""

    source: PlanSource
    decision: JobDecision
    reason: str
    at: datetime | None
    """When a recorded decision was made."""
    waiting: WaitingPlan | None


def find_todays_plan(tx: Tx, job: Job) -> TodaysPlan | None:
    """Return what a plan would decide about a job; None while a change of it is in progress."""
    version = jobs.get_version(tx, job.version_id)
    if job.change_id is not None or version is None:
        return None
    waiting = _find_waiting(tx, job)
    if find_finished(tx, job.owner, [job], {version.id: version}):
        reason = "It has written all its rows, and nothing has changed."
        return TodaysPlan(PlanSource.DERIVED, JobDecision.NONE, reason, None, waiting)
    has_savepoint = any(
        each.version == version.version and each.state is SavepointState.VERIFIED
        for each in savepoints.list_of_jobs(tx, [job.id])
    )
    is_running = job.state is JobState.RUNNING
    if not is_running and not has_savepoint:
        return TodaysPlan(
            PlanSource.RECORDED,
            JobDecision(version.decision),
            version.reason,
            version.created_at,
            waiting,
        )
    decided = decide(
        JobFacts(
            name=job.name,
            is_new=False,
            is_running=is_running,
            configuration_changed=False,
            query_changed=False,
            found_state="savepoint" if has_savepoint else None,
            on_query_change=OnQueryChange.RESET,
        )
    )
    reason = decided.reason
    if not is_running:
        # A driver looks for the checkpoint first, which may be newer.
        reason = (
            "The job is not running, and nothing has changed. It continues from its checkpoint, or"
            " from its latest savepoint."
        )
    return TodaysPlan(PlanSource.DERIVED, decided.decision, reason, None, waiting)


def _find_waiting(tx: Tx, job: Job) -> WaitingPlan | None:
    """Return the newest plan with the job that can still be applied and changes the job."""
    planned_deployments = job_changes.list_deployments(
        tx, [job.owner], _DEPLOYMENTS, state=DeploymentState.PLANNED
    )
    for deployment in planned_deployments:
        for planned in deployment.plan.changes:
            if (planned.job_id, planned.generation) == (job.id, job.generation):
                return WaitingPlan(
                    deployment.id,
                    planned.decision,
                    planned.reason,
                    deployment.created_at,
                    deployment.plan.breaking,
                )
    return None
