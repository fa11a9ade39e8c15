"""The check of jobs before a deployment: queries are analysed, nothing is started or written."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.failures import describe_failure
from headrace.driver.jobs.savepoints import has_checkpoint, is_complete
from headrace.driver.jobs.state_files import StateFiles
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.streams.job_rows import build_rows, run_setup
from headrace.driver.streams.sources import open_source, register_streams
from headrace.errors import HeadraceError
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import SaveStream
from headrace.model.job_messages import (
    CheckedJob,
    CheckedJobs,
    CheckJobs,
    JobProblem,
    JobToCheck,
    QueryToCheck,
)


def check_jobs(
    session: SparkSession, task: CheckJobs, clone_session: Callable[[], SparkSession]
) -> CheckedJobs:
    """Check every job of a task."""
    files = StateFiles(session)
    return CheckedJobs(
        jobs=[_check_job(job, files, clone_session) for job in task.jobs],
        location_problem=_check_location(files, task.state_location),
    )


def _check_job(
    job: JobToCheck, files: StateFiles, clone_session: Callable[[], SparkSession]
) -> CheckedJob:
    problems, notes = list[JobProblem](), list[str]()
    for query in job.queries:
        problem = _check_query(query, clone_session(), notes)
        if problem is not None:
            problems.append(problem)
    directories = [query.directory for query in job.queries]
    found = next((place for place in job.savepoints if is_complete(files, place)), None)
    return CheckedJob(
        name=job.name,
        problems=problems,
        notes=notes,
        found_checkpoint=job.checkpoint is not None
        and has_checkpoint(files, job.checkpoint, directories),
        found_savepoint=found,
    )


def _check_query(query: QueryToCheck, session: SparkSession, notes: list[str]) -> JobProblem | None:
    """Build the rows of a query as a run would. Return why that fails, or None."""
    spec, rows = query.spec, query.spec.rows
    assert rows is not None
    skipped = list[str]()
    try:
        Py4JBridge(session).activate()
        for key, value in spec.conf.items():
            session.conf.set(key, value)
        skipped = run_setup(session, rows.setup, persists=False)
        streams = register_streams(session, spec.definitions)
        command = parse(spec.text).command
        assert isinstance(command, SaveStream)
        is_named = rows.sql is None and rows.code is None
        source = open_source(session, command, streams) if is_named else None
        build_rows(session, rows, source)
    except (PySparkException, Py4JJavaError, HeadraceError) as error:
        failure = describe_failure(error, rows.sql or "")
        if skipped and failure.condition == "TABLE_OR_VIEW_NOT_FOUND":
            notes.append(f"not analysed, because the deployment creates a table: {failure.message}")
            return None
        return JobProblem(
            code=failure.code,
            message=failure.message,
            query=query.name,
            line=failure.line,
            column=failure.column,
        )
    return None


def _check_location(files: StateFiles, location: str) -> str | None:
    """Return why no file can be written at a location, or None."""
    probe = f"{location}/.headrace-{uuid.uuid4().hex}"
    try:
        files.write_text(probe, "")
        files.remove(probe)
    except (Py4JError, OSError) as error:
        return describe_failure(error, "").message.partition("\n")[0]
    return None
