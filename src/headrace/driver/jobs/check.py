"""The check of jobs before a deployment: queries are analysed, nothing is started or written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.failures import describe_failure
from headrace.driver.jobs.plan_summary import summarize
from headrace.driver.jobs.savepoints import has_checkpoint, is_complete
from headrace.driver.jobs.state_files import StateFiles
from headrace.driver.jobs.target_check import check_output_mode, check_table
from headrace.driver.py4j_bridge import Py4JBridge
from headrace.driver.streams.batch_sinks import check_batch
from headrace.driver.streams.classify import is_lost_jvm
from headrace.driver.streams.file_sink import has_file_log
from headrace.driver.streams.job_rows import open_job_rows, run_setup
from headrace.driver.streams.supervised_query import RunFailed
from headrace.errors import HeadraceError
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import SaveStream
from headrace.model.failure import Failure
from headrace.model.job import PlanSummary
from headrace.model.job_messages import (
    CheckedJob,
    CheckedJobs,
    CheckJobs,
    JobProblem,
    JobToCheck,
    QueryToCheck,
)
from headrace.model.stream_query import QuerySpec

_MISSING = {"TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_ROUTINE"}
"""Conditions of errors that a skipped statement can explain."""


@dataclass(slots=True)
class _FoundOut:
    """What the queries of a job show."""

    problems: list[JobProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    summaries: dict[str, PlanSummary] = field(default_factory=dict)
    used_logs: list[str] = field(default_factory=list)


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
    found_out = _FoundOut()
    for query in job.queries:
        _check_query(query, clone_session(), found_out)
    directories = [query.directory for query in job.queries]
    found_place = next((place for place in job.savepoints if is_complete(files, place)), None)
    return CheckedJob(
        name=job.name,
        problems=found_out.problems,
        notes=found_out.notes,
        summaries=found_out.summaries,
        used_logs=found_out.used_logs,
        found_checkpoint=job.checkpoint is not None
        and has_checkpoint(files, job.checkpoint, directories),
        found_savepoint=found_place,
    )


def _check_query(query: QueryToCheck, session: SparkSession, found_out: _FoundOut) -> None:
    """Build the rows of a query as a run would, and check its target."""
    spec, rows = query.spec, query.spec.rows
    assert rows is not None
    skipped = list[str]()
    try:
        Py4JBridge(session).activate()
        for key, value in spec.conf.items():
            session.conf.set(key, value)
        problem = _check_setup(session, spec, skipped)
        if problem is None:
            problem = _check_rows(query, session, found_out, skipped)
    except Exception as error:
        if is_lost_jvm(error):
            raise
        failure = _describe(error, rows.sql or "")
        if skipped and failure.condition in _MISSING:
            message = f"not analysed, because the deployment creates it: {failure.message}"
            found_out.notes.append(message)
            return
        problem = _to_problem(failure)
    if problem is not None:
        found_out.problems.append(problem.model_copy(update={"query": query.name}))


def _check_setup(session: SparkSession, spec: QuerySpec, skipped: list[str]) -> JobProblem | None:
    """Run the statements that only change the session. Add the others to `skipped`.

    Return the problem of the first statement that Spark or Headrace refuses.
    """
    assert spec.rows is not None
    for number, statement in enumerate(spec.rows.setup):
        try:
            skipped += run_setup(
                session, [statement], spec.definitions, persists=False, earlier=skipped
            )
        except (HeadraceError, PySparkException, Py4JError) as error:
            if is_lost_jvm(error):
                raise
            problem = _to_problem(_describe(error, statement))
            return problem.model_copy(update={"setup": number})
    return None


def _check_rows(
    query: QueryToCheck, session: SparkSession, found_out: _FoundOut, skipped: list[str]
) -> JobProblem | None:
    spec, rows = query.spec, query.spec.rows
    assert rows is not None
    command = parse(spec.text).command
    assert isinstance(command, SaveStream)
    frame = open_job_rows(session, spec, rows, command)
    problem = check_table(session, frame, command, skipped)
    if frame.isStreaming:
        check_output_mode(frame, command, spec)
        found_out.summaries[query.name] = summarize(frame)
    else:
        check_batch(frame, spec, command)
    if has_file_log(session, spec):
        found_out.used_logs.append(query.name)
    return problem


def _to_problem(failure: Failure) -> JobProblem:
    return JobProblem(
        code=failure.code, message=failure.message, line=failure.line, column=failure.column
    )


def _describe(error: Exception, text: str) -> Failure:
    return error.failure if isinstance(error, RunFailed) else describe_failure(error, text)


def _check_location(files: StateFiles, location: str) -> str | None:
    """Return why no file can be written at a location, or None."""
    probe = f"{location}/.headrace-{uuid.uuid4().hex}"
    try:
        files.write_text(probe, "")
        files.remove(probe)
    except (Py4JError, OSError) as error:
        return describe_failure(error, "").message.partition("\n")[0]
    return None
