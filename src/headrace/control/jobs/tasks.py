"""Tasks of drivers: a statement carries each, so that it is durable and survives its driver."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.config.settings import Settings
from headrace.control.jobs.job_sessions import open_check_session
from headrace.control.jobs.places import JobPlaces, write_manifest_text
from headrace.model.deployment import ChangeRecord, Job, JobAction, JobChange, JobVersion
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.job_messages import (
    CheckedJob,
    CheckedJobs,
    CheckJobs,
    CompareColumns,
    ComparedColumns,
    JobOutcome,
    JobTask,
    JobToCheck,
    RestoreSavepoint,
    SavepointTaken,
    TakeSavepoint,
    TaskDone,
    WriteManifests,
)
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import JOB_TASK, JOB_WRITE, NewStatement, StatementSpec
from headrace.store.database import Tx
from headrace.store.jobs import jobs, savepoints
from headrace.store.statements import statements


def answers(task: JobTask, outcome: JobOutcome) -> bool:
    """Return whether an outcome is one that this task can have."""
    if isinstance(task, TakeSavepoint):
        if not isinstance(outcome, SavepointTaken):
            return False
        content = outcome.content
        return {*content.last_batches, *content.planned_batches} <= set(task.queries)
    if isinstance(task, CheckJobs):
        return isinstance(outcome, CheckedJobs) and _answers_check(task, outcome)
    if isinstance(task, CompareColumns):
        return isinstance(outcome, ComparedColumns) and _answers_comparison(task, outcome)
    return isinstance(outcome, TaskDone)


def _answers_check(task: CheckJobs, outcome: CheckedJobs) -> bool:
    if [job.name for job in task.jobs] != [job.name for job in outcome.jobs]:
        return False
    return all(map(_answers_job, task.jobs, outcome.jobs))


def _answers_job(job: JobToCheck, checked: CheckedJob) -> bool:
    queries = {query.name for query in job.queries}
    named = {*checked.summaries, *checked.used_logs}
    named |= {problem.query for problem in checked.problems if problem.query}
    has_checkpoint = job.checkpoint is not None
    place = checked.found_savepoint
    return (
        named <= queries
        and (has_checkpoint or not checked.found_checkpoint)
        and (place is None or place in job.savepoints)
    )


def _answers_comparison(task: CompareColumns, outcome: ComparedColumns) -> bool:
    causes = {"", *(writer.name for writer in task.writers)}
    causes |= {reader.name for reader in task.readers}
    return all(
        broken.reader < len(task.readers) and broken.cause in causes for broken in outcome.broken
    )


_LOST = Failure(code="task_lost", message="The statement of the task is deleted.")
_NO_OUTCOME = Failure(
    code="invalid_report", message="The driver did not report what its task has done."
)

_WRONG_OUTCOME = Failure(
    code="invalid_report", message="The driver reported something else than what its task was."
)


@dataclass(frozen=True, slots=True)
class EndedTask:
    """The end of a task: exactly one of outcome and failure is given."""

    outcome: JobOutcome | None
    failure: Failure | None


def submit_task(tx: Tx, owner: str, session_id: str, task: JobTask, description: str) -> str:
    """Submit a task to a session, and return the id of its statement.

    Every task is safe to run again, and runs beside the other tasks of its session as queries do. A
    task that writes where others read runs again only when its first driver is gone for certain.

    Raise SessionEnded if the session accepts no more statements.

    Args:
        description: What the task does, for the list of statements.
    """
    new = NewStatement(
        id=new_id("st"),
        session_id=session_id,
        owner=owner,
        spec=StatementSpec(text=f"{JOB_TASK}: {description}"),
        is_query=True,
        command=JOB_TASK
        if isinstance(task, CheckJobs | CompareColumns | TakeSavepoint)
        else JOB_WRITE,
    )
    statement = statements.insert(tx, new, actor=owner)
    jobs.insert_task(tx, statement.id, task)
    return statement.id


def read_end(tx: Tx, statement_id: str) -> EndedTask | None:
    """Return the end of a task, or None if it has not ended."""
    statement = statements.get(tx, statement_id)
    if statement is None:
        return EndedTask(None, _LOST)
    if statement.state not in STATEMENT.terminal:
        return None
    if statement.state is not StatementState.SUCCESS:
        return EndedTask(None, statement.failure or _describe_end(statement.state))
    task, outcome = jobs.get_task(tx, statement_id), jobs.get_outcome(tx, statement_id)
    if outcome is None:
        return EndedTask(None, _NO_OUTCOME)
    if task is None or not answers(task, outcome):
        return EndedTask(None, _WRONG_OUTCOME)
    return EndedTask(outcome, None)


def _describe_end(state: StatementState) -> Failure:
    return Failure(code=f"task_{state}", message=f"The statement of the task is {state}.")


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
        batch = version.spec.batch
        task = WriteManifests(
            texts={path: write_manifest_text(version)},
            definitions=[] if batch is None else batch.definitions,
        )
    session_id = open_check_session(tx, settings, job.owner, version.spec.session)
    return _submit(tx, change, record, task, session_id, "write the manifest of")


def _submit(
    tx: Tx, change: JobChange, record: ChangeRecord, task: JobTask, session_id: str, what: str
) -> ChangeRecord:
    task_id = submit_task(tx, change.owner, session_id, task, f"{what} {change.name}")
    attempts = record.task_attempts + 1
    return record.model_copy(update={"task_id": task_id, "task_attempts": attempts})
