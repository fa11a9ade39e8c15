"""The tasks that a driver carries out. A repeated task of a deployment has the same outcome.

The check of jobs before a deployment analyses their queries, and starts or writes nothing.
savepoints.py copies the checkpoints of jobs, and batch_file.py runs the files of batches.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.failures import describe_failure
from headrace.driver.jobs.batch_file import run_file
from headrace.driver.jobs.column_changes import compare_columns
from headrace.driver.jobs.savepoints import (
    StateFiles,
    has_checkpoint,
    is_complete,
    restore_savepoint,
    take_savepoint,
)
from headrace.driver.spark_version.bridge import activate
from headrace.driver.spark_version.errors import is_lost_jvm
from headrace.driver.spark_version.plans import find_created_table
from headrace.driver.spark_version.streams import check_output_mode, describe_stream
from headrace.driver.streams.batch_run import check_batch
from headrace.driver.streams.file_sink import has_file_log
from headrace.driver.streams.job_rows import open_job_rows, run_setup
from headrace.driver.streams.row_checks import StreamRowChecks
from headrace.driver.streams.supervised_query import RunFailed
from headrace.errors import HeadraceError
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_statements import SaveStream
from headrace.model.connector_options import is_tuning_option
from headrace.model.failure import Failure
from headrace.model.job import METADATA_COLUMNS, PlanSummary
from headrace.model.job_messages import (
    CheckedJob,
    CheckedJobs,
    CheckJobs,
    CompareColumns,
    DeleteStates,
    JobOutcome,
    JobProblem,
    JobTask,
    JobToCheck,
    QueryToCheck,
    RestoreSavepoint,
    RunFile,
    SavepointTaken,
    TakeSavepoint,
    TaskDone,
    WriteManifests,
)
from headrace.model.stream_providers import find_sink
from headrace.model.stream_query import QuerySpec
from headrace.model.text import hide_secrets


def run_task(
    session: SparkSession, task: JobTask, clone_session: Callable[[], SparkSession]
) -> JobOutcome:
    """Carry out a task and return its outcome.

    Args:
        clone_session: Returns a session like `session`, for checks that no statement sees.

    Raises:
        BatchFileUnreadable: The file of a batch cannot be read.
        InvalidStream: A definition does more than define something.
        PySparkException: Spark refuses a definition.
        KnownFailure: The Python file of a batch has failed.
        SavepointBroken: A file of a savepoint is missing or altered.
        Py4JError: A file system does not answer as it should.
    """
    if isinstance(task, CheckJobs):
        return check_jobs(session, task, clone_session)
    if isinstance(task, CompareColumns):
        return compare_columns(task, clone_session)
    if isinstance(task, TakeSavepoint):
        return SavepointTaken(content=take_savepoint(session, task))
    if isinstance(task, RestoreSavepoint):
        restore_savepoint(session, task)
    elif isinstance(task, WriteManifests):
        run_setup(clone_session(), task.definitions, [], persists=True)
        _write_manifests(StateFiles(session), task)
    elif isinstance(task, DeleteStates):
        _delete_states(StateFiles(session), task)
    elif isinstance(task, RunFile):
        return run_file(session, task)
    return TaskDone()


def _write_manifests(files: StateFiles, task: WriteManifests) -> None:
    for path, text in task.texts.items():
        files.write_text(path, text)
    for path in task.deleted:
        files.remove(path)


def _delete_states(files: StateFiles, task: DeleteStates) -> None:
    for directory in task.directories:
        files.remove(directory)


_MAX_TEXT = 1000
"""Longest description that a summary contains as it is."""
_SHOWN_TEXT = 800
_SECRETS = ("password", "secret", "token", "sasl", "ssl", "credential", "user")


def summarize(frame: DataFrame) -> PlanSummary:
    """Return the summary of the plan of a streaming frame. Raises Py4JError."""
    plan = describe_stream(frame)
    return PlanSummary(
        is_streaming=frame.isStreaming,
        # In their order: Spark finds the offsets of a source by its position.
        sources=[_shorten(_describe_source(*source)) for source in plan.sources],
        operators=[_shorten(operator) for operator in plan.operators],
        columns=[
            (field.name, field.dataType.simpleString())
            for field in frame.schema.fields
            if field.name not in METADATA_COLUMNS
        ],
        is_complete=plan.is_complete,
    )


def _shorten(text: str) -> str:
    """Return a text, or its beginning and its hash if it is long."""
    # A changed password must not look like a changed plan.
    text = hide_secrets(text)
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_SHOWN_TEXT]}… sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _describe_source(name: str, options: dict[str, str]) -> str:
    shown = sorted(
        f"{key.lower()}={value}"
        for key, value in options.items()
        if not is_tuning_option(key) and not any(word in key.lower() for word in _SECRETS)
    )
    return f"{name}({', '.join(shown)})"


def check_table(
    session: SparkSession, rows: DataFrame, command: SaveStream, created: Iterable[str]
) -> JobProblem | None:
    """Return why a table cannot receive the rows, or None. The message has the fix as SQL.

    Args:
        created: Statements that the job runs before its query, for example a CREATE TABLE.
    """
    if not command.to_table:
        return None
    name = qualified_name_to_sql(command.target)
    if session.catalog.tableExists(name):
        columns = {field.name.casefold() for field in session.table(name).schema.fields}
    else:
        found = _find_created(session, command.target, created)
        if found is None:
            columns_sql = _columns_to_sql(rows, set())
            return JobProblem(
                code="target_missing",
                message=f"The target table {name} does not exist. Create it, or add this to the"
                f" table definitions: CREATE TABLE {name} ({columns_sql})",
            )
        columns = found
    missing = _columns_to_sql(rows, columns)
    if not missing:
        return None
    return JobProblem(
        code="target_columns_missing",
        message=f"The target table {name} lacks columns of the job. Add them: ALTER TABLE {name}"
        f" ADD COLUMNS ({missing})",
    )


def _find_created(
    session: SparkSession, target: tuple[str, ...], created: Iterable[str]
) -> set[str] | None:
    """Return the columns of the table that one of the statements creates, in lower case."""
    for statement in created:
        table = find_created_table(session, statement)
        if table is not None and table[0] == target[-1].casefold():
            return table[1]
    return None


def _columns_to_sql(rows: DataFrame, present: set[str]) -> str:
    return ", ".join(
        f"{quote_name(field.name)} {field.dataType.simpleString()}"
        for field in rows.schema.fields
        if field.name.casefold() not in present
    )


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
        checks_rows=True,
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
        activate(session)
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
    written = StreamRowChecks(rows.expectations).add_to(frame)
    if frame.isStreaming:
        mode = command.output_mode or find_sink(spec.sink).modes[0]
        check_output_mode(written, mode.capitalize())
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
