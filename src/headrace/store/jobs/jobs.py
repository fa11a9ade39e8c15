"""Jobs and their versions. job_changes.py changes jobs step by step.

A transaction that also locks queries locks them, and their sessions, before the job.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Select, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from headrace.errors import JobNameTaken
from headrace.model.deployment import (
    Job,
    JobVersion,
    VersionDecision,
    VersionOrigin,
    VersionSpec,
)
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.job import JobDecision
from headrace.model.job_messages import JobOutcome, JobTask
from headrace.model.lifecycle import JOB, JobState
from headrace.store import events
from headrace.store.clock import clock
from headrace.store.database import Tx
from headrace.store.tables import job_tasks as table
from headrace.store.tables import job_versions, jobs, savepoints
from headrace.store.transitions import Transitions

_TRANSITIONS = Transitions(JOB, jobs)
_LIVE = jobs.c.ended_at.is_(None)
_SELECT = select(*(column for column in jobs.c if column.name != "name_key"))
_SELECT_VERSION = select(job_versions)


@dataclass(frozen=True, slots=True)
class Deployed:
    """The version of a job that is deployed, and its run."""

    version_id: str | None
    run: str | None


def get(tx: Tx, job_id: str) -> Job | None:
    """Return a job, or None if there is no such job."""
    return _first(tx, _SELECT.where(jobs.c.id == job_id))


def find(tx: Tx, owner: str, name: str) -> Job | None:
    """Return the live job of an owner with this name, whatever its case, or None."""
    return _first(tx, _of_name(owner, name))


def list_named(tx: Tx, owners: Collection[str] | None, name: str) -> list[Job]:
    """Return the live jobs of these owners with this name; None: of all owners."""
    return list_live(tx, owners, names=[name])


def lock(tx: Tx, job_id: str) -> Job | None:
    """Lock a job until the transaction ends, and return it; None if there is no such job.

    A firing has locked the schedule and inserts rows that refer to the job. The lock permits this:
    a change of the job locks the schedule after the job.
    """
    return _first(tx, _SELECT.where(jobs.c.id == job_id).with_for_update(key_share=True))


def list_live(
    tx: Tx, owners: Collection[str] | None, *, names: Collection[str] | None = None
) -> list[Job]:
    """Return the live jobs of these owners by name.

    Args:
        owners: Owners of the jobs; None: all.
        names: Only the jobs with these names; None: all.
    """
    query = _SELECT.where(_LIVE)
    if owners is not None:
        query = query.where(jobs.c.owner.in_(owners))
    if names is not None:
        query = query.where(jobs.c.name_key.in_([name.casefold() for name in names]))
    rows = tx.execute(query.order_by(jobs.c.name_key)).mappings()
    return [Job(**row) for row in rows]


def is_place_taken(tx: Tx, name: str, state_place: str) -> bool:
    """Return whether a live job of any owner has this name and keeps its state in this place."""
    query = select(jobs.c.id).where(
        jobs.c.state_place == state_place, jobs.c.name_key == name.casefold(), _LIVE
    )
    return tx.execute(query.limit(1)).first() is not None


def insert_job(
    tx: Tx, owner: str, name: str, state_location: str, *, state_place: str, actor: str
) -> Job:
    """Insert a job that is being deployed for the first time.

    Args:
        state_place: Identity of the place of the state location.

    Raise JobNameTaken if another job has the name, or keeps its state in the same place.
    """
    job_id = new_id("jb")
    row = {
        "id": job_id,
        "owner": owner,
        "name": name,
        "name_key": name.casefold(),
        "state": JOB.initial,
        "generation": 1,
        "state_location": state_location,
        "state_place": state_place,
    }
    try:
        tx.execute(insert(jobs).values(created_at=clock(), updated_at=clock()), row)
    except IntegrityError as error:
        raise JobNameTaken(
            f"A job {name!r} exists already, or keeps its state at {state_location}.",
            hint="Choose another name, or another state location with --state-location.",
        ) from error
    events.append_creation(tx, JOB, job_id, actor=actor, detail={"name": name})
    job = get(tx, job_id)
    assert job is not None
    return job


def transition(
    tx: Tx,
    job: Job,
    target: JobState,
    *,
    actor: str,
    failure: Failure | None = None,
    detail: dict[str, Any] | None = None,
    deployed: Deployed | None = None,
) -> None:
    """Change the state of a locked job, with its event.

    Args:
        failure: Why the job failed; None removes an earlier failure.
        deployed: What runs from now on; None: as before.
    """
    columns: dict[str, Any] = {"failure": failure, "updated_at": clock()}
    columns["generation"] = job.generation + 1
    if deployed is not None:
        columns |= {"version_id": deployed.version_id, "run": deployed.run}
    _TRANSITIONS.apply(
        tx,
        job.id,
        job.state,
        target,
        actor=actor,
        values=columns,
        detail=detail,
        failure=failure,
        is_locked=True,
    )


def end_with_query(
    tx: Tx, owner: str, name: str, *, failure: Failure | None, is_last: bool, actor: str
) -> None:
    """Let a running job follow a query of its own that has ended.

    Args:
        failure: Why the query failed; None: it has stopped.
        is_last: Whether no other query of the job is live.
    """
    job = _first(tx, _of_name(owner, name).with_for_update())
    if job is None or job.state is not JobState.RUNNING:
        return
    if failure is not None:
        transition(tx, job, JobState.FAILED, actor=actor, failure=failure)
    elif is_last:
        transition(tx, job, JobState.STOPPED, actor=actor)


def get_version(tx: Tx, version_id: str | None) -> JobVersion | None:
    """Return a version, or None if there is no such version."""
    if version_id is None:
        return None
    return _first_version(tx, _SELECT_VERSION.where(job_versions.c.id == version_id))


def list_versions(tx: Tx, version_ids: Collection[str]) -> dict[str, JobVersion]:
    """Return these versions by id."""
    rows = tx.execute(_SELECT_VERSION.where(job_versions.c.id.in_(version_ids))).mappings()
    return {row["id"]: JobVersion(**row) for row in rows}


def history(tx: Tx, job_id: str, limit: int) -> list[JobVersion]:
    """Return the last versions of a job, newest first."""
    query = _SELECT_VERSION.where(job_versions.c.job_id == job_id)
    rows = tx.execute(query.order_by(job_versions.c.revision.desc()).limit(limit)).mappings()
    return [JobVersion(**row) for row in rows]


def list_decisions(tx: Tx, job_id: str, since: datetime, limit: int) -> list[VersionDecision]:
    """Return the last versions of a job that are not older than `since`, newest first."""
    query = (
        select(*(job_versions.c[field.name] for field in fields(VersionDecision)))
        .where(job_versions.c.job_id == job_id, job_versions.c.created_at >= since)
        .order_by(job_versions.c.revision.desc())
        .limit(limit)
    )
    return [VersionDecision(**row) for row in tx.execute(query).mappings()]


def list_origins(tx: Tx, job_id: str) -> list[VersionOrigin]:
    """Return where the state of each version of a job comes from."""
    begun = savepoints.c.id == job_versions.c.from_state
    query = (
        select(
            job_versions.c.version,
            job_versions.c.revision,
            job_versions.c.outcome,
            job_versions.c.last_run,
            savepoints.c.version.label("parent"),
        )
        .select_from(job_versions.outerjoin(savepoints, begun))
        .where(job_versions.c.job_id == job_id)
    )
    return [
        VersionOrigin(
            version=row.version,
            revision=row.revision,
            has_state=row.outcome == "deployed" or row.last_run is not None,
            parent=row.parent,
        )
        for row in tx.execute(query)
    ]


def find_with_state(tx: Tx, job_id: str, version: int) -> JobVersion | None:
    """Return the newest manifest with this number of a query that has run, or None.

    That is a deployed manifest, or one whose rollback to another lineage has failed.
    """
    query = _SELECT_VERSION.where(
        job_versions.c.job_id == job_id,
        job_versions.c.version == version,
        or_(job_versions.c.outcome == "deployed", job_versions.c.last_run.is_not(None)),
    )
    return _first_version(tx, query.order_by(job_versions.c.revision.desc()).limit(1))


def insert_version(
    tx: Tx,
    job: Job,
    spec: VersionSpec,
    *,
    version: int,
    query_id: str,
    decision: JobDecision,
    reason: str,
    deployment_id: str,
    same_query_as: JobVersion | None = None,
) -> JobVersion:
    """Insert the next version of a job.

    Args:
        query_id: UUID of the query.
        same_query_as: Version with the same query, whose creation time the version keeps.
    """
    newest = select(func.max(job_versions.c.revision)).where(job_versions.c.job_id == job.id)
    revision = (tx.execute(newest).scalar_one() or 0) + 1
    row = {
        "id": new_id("jv"),
        "job_id": job.id,
        "version": version,
        "revision": revision,
        "query_id": query_id,
        "spec": spec,
        "decision": decision,
        "reason": reason,
        "deployment_id": deployment_id,
    }
    created_at = clock() if same_query_as is None else same_query_as.query_created_at
    statement = insert(job_versions).values(created_at=clock(), query_created_at=created_at)
    inserted = tx.execute(statement.returning(*job_versions.c), row).mappings().one()
    return JobVersion(**inserted)


def newest_version_number(tx: Tx, job_id: str) -> int:
    """Return the largest number of a query of a job; 0 if it has none."""
    query = select(func.max(job_versions.c.version)).where(job_versions.c.job_id == job_id)
    return tx.execute(query).scalar_one() or 0


def set_outcome(
    tx: Tx, version_id: str, *, outcome: str, last_run: str | None, from_state: str | None
) -> None:
    """Record how a deployment of a version ended, its run, and the state that it began with."""
    values = {"outcome": outcome, "last_run": last_run, "from_state": from_state}
    known = {name: value for name, value in values.items() if value is not None}
    tx.execute(update(job_versions).where(job_versions.c.id == version_id).values(known))


def _of_name(owner: str, name: str) -> Select[Any]:
    return _SELECT.where(jobs.c.owner == owner, jobs.c.name_key == name.casefold(), _LIVE)


def _first(tx: Tx, query: Select[Any]) -> Job | None:
    row: RowMapping | None = tx.execute(query).mappings().first()
    return None if row is None else Job(**row)


def _first_version(tx: Tx, query: Select[Any]) -> JobVersion | None:
    row: RowMapping | None = tx.execute(query).mappings().first()
    return None if row is None else JobVersion(**row)


def insert_task(tx: Tx, statement_id: str, task: JobTask) -> None:
    """Keep the task of a statement."""
    tx.execute(insert(table), {"statement_id": statement_id, "task": task})


def get_task(tx: Tx, statement_id: str) -> JobTask | None:
    """Return the task of a statement, or None if it has none."""
    query = select(table.c.task).where(table.c.statement_id == statement_id)
    return tx.execute(query).scalar_one_or_none()


def save_outcome(tx: Tx, statement_id: str, outcome: JobOutcome) -> None:
    """Keep what a driver has reported about the task of a statement that succeeds."""
    change = update(table).where(table.c.statement_id == statement_id)
    tx.execute(change.values(outcome=outcome))


def get_outcome(tx: Tx, statement_id: str) -> JobOutcome | None:
    """Return what a driver has reported about a task, or None."""
    query = select(table.c.outcome).where(table.c.statement_id == statement_id)
    return tx.execute(query).scalar_one_or_none()


def delete_tasks_of_statements(tx: Tx, statement_ids: Collection[str]) -> None:
    """Delete the tasks of statements that are deleted."""
    tx.execute(delete(table).where(table.c.statement_id.in_(statement_ids)))
