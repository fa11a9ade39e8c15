"""Batch jobs in a store, without a deployment."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime

from headrace.model.deployment import JobSession, VersionSpec
from headrace.model.job import JobDecision
from headrace.model.run import BatchSpec, BatchStatement, FiringRules
from headrace.model.session import SessionSpec
from headrace.store.database import Database, Tx
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
    [job_id] = insert_batch_jobs(
        store, rules, cursor=cursor, names=[name], owner=owner, batch=batch
    )
    return job_id


def insert_batch_jobs(
    store: Database,
    rules: FiringRules,
    *,
    cursor: datetime,
    names: Iterable[str],
    owner: str = "ada",
    batch: BatchSpec | None = None,
) -> list[str]:
    """Insert jobs whose schedules have come to `cursor`. Return their ids."""
    batch = batch or BatchSpec(rules=rules, statements=[BatchStatement(text="SELECT 1")])
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
        return [_insert_job(tx, name, owner, spec, cursor) for name in names]


def _insert_job(tx: Tx, name: str, owner: str, spec: VersionSpec, cursor: datetime) -> str:
    job = jobs.insert_job(tx, owner, name, "/state", state_place=f"/{owner}/{name}", actor=owner)
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
    assert spec.batch is not None
    rules = spec.batch.rules
    schedules.save(tx, job.id, version_id=version.id, rules=rules, cursor=cursor, next_at=cursor)
    return job.id
