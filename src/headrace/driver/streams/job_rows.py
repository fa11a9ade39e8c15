"""The rows of a query of a job: its SQL or its code, with the metadata columns."""

from __future__ import annotations

import traceback
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from types import MappingProxyType
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.driver.failures import (
    InvalidStream,
    describe_failure,
    find_missing_parts,
    refuse_permanent_view,
)
from headrace.driver.spark_version.errors import is_lost_jvm
from headrace.driver.spark_version.plans import (
    Effect,
    find_effect,
    find_view_relations,
    open_view_query,
)
from headrace.driver.streams.classify import is_permanent
from headrace.driver.streams.sources import (
    name_of_temporary_view,
    open_source,
    qualified,
    register_job_streams,
    replace_qualified_names,
)
from headrace.driver.streams.supervised_query import RunFailed
from headrace.errors import Position
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.grammar.lexer import code_tokens
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateStream, CreateStreamAs, SaveStream
from headrace.model.failure import Failure
from headrace.model.job import METADATA_COLUMNS, JobMetadata, JobRows
from headrace.model.stream_query import QuerySpec
from headrace.model.text import cut_text

OUTPUT = "execution_output"
_FILE = "<code of the job>"


def run_code(
    session: SparkSession, code: str, variables: Mapping[str, Any] = MappingProxyType({})
) -> DataFrame:
    """Run the code of a job, and return the DataFrame that it binds.

    Args:
        variables: Names that the code can use, besides `spark`.

    Raises:
        RunFailed: The code raised an error.
        InvalidStream: The code did not bind a DataFrame.
        Py4JError: The JVM does not answer.
    """
    # cloudpickle sends functions of `__main__` to the executors by value.
    names: dict[str, Any] = {**variables, "__name__": "__main__", "spark": session}
    try:
        exec(compile(code, _FILE, "exec"), names)  # noqa: S102 - the code is the user's own job
    except (Exception, SystemExit) as error:
        if isinstance(error, Exception) and is_lost_jvm(error):
            raise
        raise describe_code_error(error, code, _FILE, "`code`") from error
    if OUTPUT not in names:
        raise InvalidStream(
            f"The code of the job did not bind `{OUTPUT}`. Assign the DataFrame whose rows the job"
            f" writes: {OUTPUT} = spark.readStream.table('t')"
        )
    output = names[OUTPUT]
    if not isinstance(output, DataFrame):
        raise InvalidStream(
            f"The code of the job bound `{OUTPUT}` to a value of the type"
            f" {type(output).__name__}. It must be a DataFrame, streaming or batch."
        )
    return output


def describe_code_error(error: BaseException, code: str, file: str, label: str) -> RunFailed:
    """Return the failure of code, whose message begins with the line that failed.

    Args:
        file: Name under which the code was compiled.
        label: What the message calls the code.
    """
    is_of_spark = isinstance(error, Exception) and _is_of_spark(error)
    if is_of_spark:
        assert isinstance(error, Exception)
        failure = describe_failure(error, code)
        reason = failure.message
    else:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        trace = "".join(traceback.format_exception(error))
        failure = Failure(code="execution_error", message=reason, trace=trace)
    line = _find_line(error, file)
    message = f"{label} failed: {reason}" if line is None else f"line {line} of {label}: {reason}"
    # Errors of Spark's jobs may be transient, for example while a file system does not answer.
    permanent = not is_of_spark or (isinstance(error, Exception) and is_permanent(error))
    return RunFailed(
        failure.model_copy(update={"message": message, "line": line, "column": None}),
        is_permanent=permanent,
    )


def _is_of_spark(error: Exception) -> bool:
    return isinstance(error, PySparkException | Py4JJavaError)


def _find_line(error: BaseException, file: str) -> int | None:
    """Return the line of the code that raised an error, or that called what raised it."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return lines[-1] if lines else None


_DIRECT_QUERY = "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"
"""Spark's condition for a name such as `kafka`.`orders`, which could be that of a file."""
_EXISTS = {
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS",
    "SCHEMA_ALREADY_EXISTS",
    "ROUTINE_ALREADY_EXISTS",
    "VIEW_ALREADY_EXISTS",
    "TABLE_ALREADY_EXISTS",
}


def run_setup(
    session: SparkSession,
    statements: Iterable[str],
    definitions: Iterable[str],
    *,
    persists: bool,
    earlier: Sequence[str] = (),
) -> list[str]:
    """Run the statements that a job needs before its query. An object that exists stays.

    Args:
        definitions: The streams, temporary views and sinks of the job, which follow.
        persists: Whether statements may change a catalog. Otherwise they are skipped.
        earlier: Statements that were skipped before these.

    Returns:
        The skipped statements.

    Raises:
        InvalidStream: A statement does more than define something, or creates a permanent view
            over a stream.
        PySparkException: Spark refuses a statement.
    """
    skipped = list[str]()
    for statement in statements:
        effect = find_effect(session, statement)
        is_permanent_view = effect is Effect.PERMANENT_VIEW
        if (is_permanent_view or effect is Effect.CATALOG) and not persists:
            if is_permanent_view:
                _check_reads_no_stream(session, statement, definitions, [*earlier, *skipped])
            skipped.append(statement)
            continue
        if effect is Effect.OTHER:
            raise InvalidStream(
                f"A job can only define tables, views, functions and configuration. This statement"
                f" does something else: {cut_text(statement, 200)}"
            )
        try:
            session.sql(statement)
        except AnalysisException as error:
            if error.getCondition() in _EXISTS:
                continue
            if is_permanent_view:
                raise _explain_stream(session, error, statement, definitions) from error
            raise
    return skipped


def _check_reads_no_stream(
    session: SparkSession, statement: str, definitions: Iterable[str], skipped: Iterable[str]
) -> None:
    """Raise InvalidStream if the query of a permanent view reads a stream of the job.

    A table of the same name comes first, also one that a skipped statement creates.
    """
    try:
        open_view_query(session, statement)
    except AnalysisException as error:
        explained = _explain_stream(session, error, statement, definitions)
        name = find_missing_parts(error)[-1:]
        created = {token.word for text in skipped for token in code_tokens(text)}
        if explained is not error and created.isdisjoint(part.upper() for part in name):
            raise explained from error


def _explain_stream(
    session: SparkSession, error: AnalysisException, view: str, definitions: Iterable[str]
) -> Exception:
    """Return a clearer error if a permanent view reads a stream of the job, or the error."""
    by_name = {_read_name(session, text): text for text in definitions}
    parts = find_missing_parts(error)
    if error.getCondition() == _DIRECT_QUERY:
        parts = _find_qualified_stream(session, view, by_name)
    definition = by_name.get(_fold(parts)) if parts else None
    if definition is None:
        return error
    failure = describe_failure(error, view)
    position = None
    if failure.line is not None and failure.column is not None:
        position = Position(failure.line, failure.column)
    return refuse_permanent_view(
        parts[0] if len(parts) == 1 else qualified_name_to_sql(parts),
        is_stream=parse(definition).command is not None,
        position=position,
    )


def _find_qualified_stream(
    session: SparkSession, view: str, names: Container[tuple[str, ...]]
) -> list[str]:
    """Return the first of the qualified names that a permanent view reads; empty if none."""
    relations = find_view_relations(session, view)
    read = (parts for *_, parts in relations if len(parts) > 1 and _fold(parts) in names)
    return list(next(read, ()))


def _fold(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(str.casefold, parts))


def _read_name(session: SparkSession, definition: str) -> tuple[str, ...]:
    """Return the name of a stream or a temporary view, in lower case; empty for a sink."""
    command = parse(definition).command
    if command is None:
        return _fold([name_of_temporary_view(session, definition)])
    if isinstance(command, CreateStream | CreateStreamAs):
        return _fold((*command.qualifier, command.name))
    return ()


def open_job_rows(
    session: SparkSession, spec: QuerySpec, rows: JobRows, command: SaveStream
) -> DataFrame:
    """Return the rows of a query of a job, with its metadata columns.

    Raises:
        RunFailed: The code failed, or Spark refuses the query.
        InvalidStream: The code binds no DataFrame, or the rows have a metadata column already.
        PySparkException: Spark refuses a definition.
    """
    views = register_job_streams(session, spec.definitions)
    if rows.code is not None:
        frame = run_code(session, rows.code)
    elif rows.sql is not None:
        frame = _run_sql(session, rows.sql, qualified(views))
    else:
        view = views.get(tuple(part.casefold() for part in command.source))
        source = command if view is None else replace(command, source=(view,))
        frame = open_source(session, source, views.values())
    return frame if rows.metadata is None else _add_metadata(frame, rows.metadata)


def _run_sql(session: SparkSession, sql: str, views: Mapping[tuple[str, ...], str]) -> DataFrame:
    """Return the rows of a query. Raise RunFailed, with a position in the text as written."""
    replaced = replace_qualified_names(session, sql, views)
    try:
        return session.sql(replaced.text)
    except (PySparkException, Py4JJavaError) as error:
        failure = describe_failure(error, replaced.text)
        if replaced.edits and failure.line is not None and failure.column is not None:
            position = replaced.locate(failure.line, failure.column)
            located = {"line": position.line, "column": position.column}
            failure = failure.model_copy(update=located)
        raise RunFailed(failure, is_permanent=is_permanent(error)) from error


def _add_metadata(frame: DataFrame, metadata: JobMetadata) -> DataFrame:
    present = {name.casefold() for name in frame.columns} & set(METADATA_COLUMNS)
    if present:
        raise InvalidStream(
            f"The query has a column {min(present)}, which the job adds. Rename it, or set"
            " metadata-columns to false."
        )
    created_at = metadata.created_at.astimezone(UTC).isoformat()
    values = (
        F.current_timestamp(),
        F.lit(metadata.name),
        F.lit(metadata.description),
        F.lit(metadata.query_id),
        F.lit(metadata.version),
        F.lit(created_at).cast("timestamp"),
    )
    columns = (value.alias(name) for value, name in zip(values, METADATA_COLUMNS, strict=True))
    return frame.select("*", *columns)
