"""The tasks of deployments that a driver carries out. A repeated task has the same outcome."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from headrace.driver.jobs.check import check_jobs
from headrace.driver.jobs.savepoints import restore_savepoint, take_savepoint
from headrace.driver.jobs.state_files import StateFiles
from headrace.model.job_messages import (
    CheckJobs,
    DeleteStates,
    JobOutcome,
    JobTask,
    RestoreSavepoint,
    SavepointTaken,
    TakeSavepoint,
    TaskDone,
    WriteManifests,
)


def run_task(
    session: SparkSession, task: JobTask, clone_session: Callable[[], SparkSession]
) -> JobOutcome:
    """Carry out a task and return its outcome.

    Args:
        clone_session: Returns a session like `session`, for checks that no statement sees.

    Raises:
        SavepointBroken: A file of a savepoint is missing or altered.
        Py4JError: A file system does not answer as it should.
    """
    if isinstance(task, CheckJobs):
        return check_jobs(session, task, clone_session)
    if isinstance(task, TakeSavepoint):
        return SavepointTaken(content=take_savepoint(session, task))
    if isinstance(task, RestoreSavepoint):
        restore_savepoint(session, task)
    elif isinstance(task, WriteManifests):
        _write_manifests(StateFiles(session), task)
    elif isinstance(task, DeleteStates):
        _delete_states(StateFiles(session), task)
    return TaskDone()


def _write_manifests(files: StateFiles, task: WriteManifests) -> None:
    for path, text in task.texts.items():
        files.write_text(path, text)
    for path in task.deleted:
        files.remove(path)


def _delete_states(files: StateFiles, task: DeleteStates) -> None:
    for directory in task.directories:
        files.remove(directory)
