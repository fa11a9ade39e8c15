"""Batch jobs in a store, without a deployment."""

from __future__ import annotations

import uuid
from datetime import datetime

from headrace.model.deployment import JobSession, VersionSpec
from headrace.model.job import JobDecision
from headrace.model.run import BatchSpec, BatchStatement, FiringRules
from headrace.model.session import SessionSpec
from headrace.store.database import Database
from headrace.store.jobs import jobs, schedules


def insert_batch_job(
    store: Database,
    rules: FiringRules,
    *,
    cursor: datetime,
    name: str = "load",
    owner: str = "ada",
    batch: BatchSpec | None = None,
) -> str:
    """Insert a job whose schedule has come to `cursor`. Return its id."""
    batch = batch or BatchSpec(rules=rules, statements=[BatchStatement(text="SELECT 1")])
    with store.write("test") as tx:
        job = jobs.insert_job(tx, owner, name, "/state", state_place=f"/{owner}", actor=owner)
    deploy_version(store, job.id, batch, cursor=cursor)
    return job.id


def deploy_version(store: Database, job_id: str, batch: BatchSpec, *, cursor: datetime) -> str:
    """Let the schedule of a job start a new version from now on. Return the id of the version."""
    spec = VersionSpec(
        written={},
        manifest={},
        description="",
        query_fingerprint="",
        configuration_fingerprint="",
        session=JobSession(name="jobs-default", spec=SessionSpec()),
        queries=[],
        batch=batch,
    )
    with store.write("test") as tx:
        job = jobs.get(tx, job_id)
        assert job is not None
        version = jobs.insert_version(
            tx,
            job,
            spec,
            version=1,
            query_id=str(uuid.uuid4()),
            decision=JobDecision.START_CLEAN,
            reason="",
            deployment_id="dp_x",
        )
        schedules.save(
            tx,
            job.id,
            version_id=version.id,
            rules=batch.rules,
            cursor=cursor,
            next_at=cursor,
        )
    return version.id
