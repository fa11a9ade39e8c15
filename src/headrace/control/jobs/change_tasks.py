"""The tasks of drivers that a change of a job needs: copies, restores and manifests."""

from __future__ import annotations

from headrace.config.settings import Settings
from headrace.control.jobs.job_sessions import open_check_session
from headrace.control.jobs.manifest_files import write_manifest_text
from headrace.control.jobs.places import JobPlaces
from headrace.control.jobs.tasks import submit_task
from headrace.model.deployment import ChangeRecord, Job, JobAction, JobChange, JobVersion
from headrace.model.job_messages import JobTask, RestoreSavepoint, TakeSavepoint, WriteManifests
from headrace.model.text import new_id
from headrace.store.database import Tx
from headrace.store.jobs import jobs, savepoints


def get_job(tx: Tx, change: JobChange) -> Job:
    """Return the job of a change."""
    job = jobs.get(tx, change.job_id)
    assert job is not None
    return job


def get_version(tx: Tx, version_id: str | None) -> JobVersion:
    """Return a version that exists."""
    version = jobs.get_version(tx, version_id)
    assert version is not None
    return version


def submit_savepoint(tx: Tx, settings: Settings, change: JobChange) -> ChangeRecord:
    """Submit the copy of the old run to a new savepoint. Return the record that names both."""
    record, job = change.record, get_job(tx, change)
    version = get_version(tx, record.old_version_id)
    assert record.old_run is not None
    places = JobPlaces(job.state_location, job.name)
    savepoint_id = new_id("sp")
    place = places.savepoint(version.version, savepoint_id)
    savepoints.insert_savepoint(
        tx,
        savepoint_id,
        job.id,
        version=version.version,
        run=record.old_run,
        place=place,
        actor=job.owner,
    )
    task = TakeSavepoint(
        checkpoint=places.checkpoint(record.old_run),
        queries=[query.directory for query in version.spec.queries],
        savepoint=place,
    )
    session_id = open_check_session(tx, settings, job.owner, version.spec.session)
    record = record.model_copy(update={"savepoint_id": savepoint_id})
    return _submit(tx, change, record, task, session_id, "copy a savepoint of")


def submit_restore(tx: Tx, change: JobChange, session_id: str) -> ChangeRecord:
    """Submit the copy of a savepoint to the new run. Return the record that names the task."""
    record, job = change.record, get_job(tx, change)
    source = record.restore_id or record.savepoint_id
    assert source is not None
    assert record.new_run is not None
    savepoint = savepoints.get(tx, source)
    assert savepoint is not None
    places = JobPlaces(job.state_location, job.name)
    task = RestoreSavepoint(savepoint=savepoint.place, checkpoint=places.checkpoint(record.new_run))
    return _submit(tx, change, record, task, session_id, "restore a savepoint of")


def submit_manifest(tx: Tx, settings: Settings, change: JobChange) -> ChangeRecord:
    """Submit the writing of the manifest, or its deletion with the job. Return the record."""
    record, job = change.record, get_job(tx, change)
    path = JobPlaces(job.state_location, job.name).manifest
    version = get_version(tx, record.new_version_id or record.old_version_id)
    task = WriteManifests(deleted=[path])
    if record.action is not JobAction.DELETE:
        task = WriteManifests(texts={path: write_manifest_text(version)})
    session_id = open_check_session(tx, settings, job.owner, version.spec.session)
    return _submit(tx, change, record, task, session_id, "write the manifest of")


def _submit(
    tx: Tx, change: JobChange, record: ChangeRecord, task: JobTask, session_id: str, what: str
) -> ChangeRecord:
    task_id = submit_task(tx, change.owner, session_id, task, f"{what} {change.name}")
    attempts = record.task_attempts + 1
    return record.model_copy(update={"task_id": task_id, "task_attempts": attempts})
