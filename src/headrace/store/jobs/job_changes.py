"""Changes of jobs, each in steps, and the deployments that they belong to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Select, insert, select, update

from headrace.model.deployment import (
    ChangeRecord,
    Deployment,
    DeploymentPlan,
    Job,
    JobAction,
    JobChange,
)
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import CHANGE, DEPLOYMENT, ChangeStep, DeploymentState
from headrace.store import events
from headrace.store.clock import clock, seconds_since
from headrace.store.database import Tx
from headrace.store.tables import deployments, job_changes, jobs
from headrace.store.transitions import Transitions

_OF_CHANGES = Transitions(CHANGE, job_changes, column="step")
_OF_DEPLOYMENTS = Transitions(DEPLOYMENT, deployments)
_EXPIRED_AT_ONCE = 100
_SELECT = select(job_changes)
_SELECT_DEPLOYMENT = select(deployments)


def insert_deployment(
    tx: Tx, owner: str, action: JobAction, plan: DeploymentPlan, *, actor: str
) -> str:
    """Insert a deployment whose manifests are being checked. Return its id."""
    deployment_id = new_id("dp")
    row = {
        "id": deployment_id,
        "owner": owner,
        "action": action,
        "state": DEPLOYMENT.initial,
        "plan": plan,
    }
    tx.execute(insert(deployments).values(created_at=clock()), row)
    events.append_creation(tx, DEPLOYMENT, deployment_id, actor=actor)
    return deployment_id


def get_deployment(tx: Tx, deployment_id: str) -> Deployment | None:
    """Return a deployment, or None if there is no such deployment."""
    row = tx.execute(_SELECT_DEPLOYMENT.where(deployments.c.id == deployment_id)).mappings().first()
    return None if row is None else Deployment(**row)


def lock_deployment(tx: Tx, deployment_id: str) -> Deployment | None:
    """Lock a deployment until the transaction ends, and return it; None if there is none."""
    query = _SELECT_DEPLOYMENT.where(deployments.c.id == deployment_id).with_for_update()
    row = tx.execute(query).mappings().first()
    return None if row is None else Deployment(**row)


def list_deployments(
    tx: Tx,
    owners: Collection[str] | None,
    limit: int,
    *,
    state: DeploymentState | None = None,
) -> list[Deployment]:
    """Return the last deployments of these owners, newest first; None: of all owners.

    Args:
        state: Only deployments in this state; None: in any.
    """
    query = _SELECT_DEPLOYMENT
    if state is not None:
        query = query.where(deployments.c.state == state)
        if state in DEPLOYMENT.live:
            query = query.where(deployments.c.ended_at.is_(None))
    if owners is not None:
        query = query.where(deployments.c.owner.in_(owners))
    rows = tx.execute(query.order_by(deployments.c.id.desc()).limit(limit)).mappings()
    return [Deployment(**row) for row in rows]


def move_deployment(
    tx: Tx,
    deployment: Deployment,
    target: DeploymentState,
    *,
    actor: str,
    plan: DeploymentPlan | None = None,
) -> None:
    """Change the state of a locked deployment, with its event."""
    values: dict[str, Any] = {} if plan is None else {"plan": plan}
    if target is DeploymentState.APPLYING:
        values["applied_at"] = clock()
    source = deployment.state
    _OF_DEPLOYMENTS.apply(
        tx, deployment.id, source, target, actor=actor, values=values, is_locked=True
    )


def has_old_plan(tx: Tx, seconds: float) -> bool:
    """Return whether a plan was not applied within a time."""
    return tx.execute(_old_plans(seconds).limit(1)).first() is not None


def expire_plans(tx: Tx, seconds: float, *, actor: str) -> None:
    """Expire at most a hundred plans that were not applied within a time."""
    query = _old_plans(seconds).limit(_EXPIRED_AT_ONCE).with_for_update(skip_locked=True)
    for row in tx.execute(query).mappings().all():
        move_deployment(tx, Deployment(**row), DeploymentState.EXPIRED, actor=actor)


def insert_change(tx: Tx, deployment_id: str, job: Job, record: ChangeRecord, *, actor: str) -> str:
    """Insert the change of a locked job, which must have none in progress. Return its id."""
    if job.change_id is not None:
        raise ValueError(f"the job {job.name} is being changed already")
    change_id = new_id("jc")
    row = {
        "id": change_id,
        "deployment_id": deployment_id,
        "job_id": job.id,
        "owner": job.owner,
        "name": job.name,
        "step": CHANGE.initial,
        "record": record,
    }
    tx.execute(insert(job_changes).values(created_at=clock(), stepped_at=clock()), row)
    tx.execute(update(jobs).where(jobs.c.id == job.id).values(change_id=change_id))
    detail = {"job": job.name, "decision": record.decision}
    events.append_creation(tx, CHANGE, change_id, actor=actor, detail=detail)
    return change_id


def get(tx: Tx, change_id: str) -> JobChange | None:
    """Return a change, or None if there is no such change."""
    return _first(tx, _SELECT.where(job_changes.c.id == change_id))


def of_deployment(tx: Tx, deployment_id: str) -> list[JobChange]:
    """Return the changes of a deployment, by job."""
    query = _SELECT.where(job_changes.c.deployment_id == deployment_id)
    return _fetch(tx, query.order_by(job_changes.c.name))


def of_deployments(tx: Tx, deployment_ids: Collection[str]) -> dict[str, list[JobChange]]:
    """Return the changes of several deployments, each by job. Some may have no changes."""
    query = _SELECT.where(job_changes.c.deployment_id.in_(deployment_ids))
    changes = _fetch(tx, query.order_by(job_changes.c.deployment_id, job_changes.c.name))
    return {
        deployment_id: list(group)
        for deployment_id, group in groupby(changes, attrgetter("deployment_id"))
    }


def list_changes(tx: Tx, change_ids: Collection[str]) -> list[JobChange]:
    """Return these changes."""
    return _fetch(tx, _SELECT.where(job_changes.c.id.in_(change_ids)))


def seconds_in_step(tx: Tx, change_id: str) -> float:
    """Return the time since the last step of a change."""
    query = select(seconds_since(job_changes.c.stepped_at)).where(job_changes.c.id == change_id)
    return float(tx.execute(query).scalar_one())


def save_record(tx: Tx, change: JobChange, record: ChangeRecord) -> JobChange:
    """Keep what a change has done within its step. Return the change."""
    tx.execute(update(job_changes).where(job_changes.c.id == change.id).values(record=record))
    return replace(change, record=record)


def step(
    tx: Tx,
    change: JobChange,
    target: ChangeStep,
    *,
    actor: str,
    record: ChangeRecord | None = None,
    failure: Failure | None = None,
) -> JobChange:
    """Move a change to its next step, with its event. Return the change.

    The transaction has locked the operation of the change. With the last step, the job is free for
    the next change, and the deployment ends with its last change.

    Args:
        failure: Why the change failed. A later step keeps it.
    """
    changed = replace(
        change, step=target, record=record or change.record, failure=failure or change.failure
    )
    values = {"record": changed.record, "failure": changed.failure, "stepped_at": clock()}
    _OF_CHANGES.apply(
        tx,
        change.id,
        change.step,
        target,
        actor=actor,
        values=values,
        detail={"job": change.name},
        failure=failure,
        is_locked=True,
    )
    if target in CHANGE.terminal:
        free = update(jobs).where(jobs.c.id == change.job_id, jobs.c.change_id == change.id)
        tx.execute(free.values(change_id=None))
        _end_deployment(tx, change.deployment_id, actor=actor)
    return changed


def _end_deployment(tx: Tx, deployment_id: str, *, actor: str) -> None:
    """End a deployment whose changes have all ended."""
    deployment = lock_deployment(tx, deployment_id)
    if deployment is None or deployment.state is not DeploymentState.APPLYING:
        return
    query = select(job_changes.c.step).where(job_changes.c.deployment_id == deployment_id)
    steps = set(tx.execute(query).scalars())
    if steps <= CHANGE.terminal:
        has_failed = ChangeStep.FAILED in steps
        target = DeploymentState.FAILED if has_failed else DeploymentState.APPLIED
        move_deployment(tx, deployment, target, actor=actor)


def _old_plans(seconds: float) -> Select[Any]:
    return _SELECT_DEPLOYMENT.where(
        deployments.c.ended_at.is_(None),
        deployments.c.state == DeploymentState.PLANNED,
        seconds_since(deployments.c.created_at) > seconds,
    )


def _first(tx: Tx, query: Select[Any]) -> JobChange | None:
    row = tx.execute(query).mappings().first()
    return None if row is None else JobChange(**row)


def _fetch(tx: Tx, query: Select[Any]) -> list[JobChange]:
    return [JobChange(**row) for row in tx.execute(query).mappings()]
