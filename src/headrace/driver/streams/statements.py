"""The statements on streams that a driver executes: CREATE STREAM, CREATE SINK, SAVE STREAM."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from headrace.driver.ctas import Cancelled
from headrace.driver.ctas.view_switch import read_scope
from headrace.driver.failures import TEMPORARY_REFERENCE, InvalidStream, KnownFailure
from headrace.driver.spark_version.parameters import empty_frame
from headrace.driver.spark_version.plans import find_temporary_views
from headrace.driver.streams.sinks import check_sink
from headrace.driver.streams.sources import (
    columns_to_ddl,
    open_stream,
    register_streams,
)
from headrace.driver.streams.supervised_query import SupervisedQuery
from headrace.driver.streams.supervisor import Supervisor
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name, quote_string
from headrace.grammar.stream_statements import (
    CreateSink,
    CreateStream,
    CreateStreamAs,
)
from headrace.model.lifecycle import StreamState
from headrace.model.messages import Assignment
from headrace.model.stream_providers import find_sink

_WAIT_SECONDS = 0.1


def run_stream_statement(
    session: SparkSession,
    assignment: Assignment,
    supervisor: Supervisor,
    *,
    clone_session: Callable[[], SparkSession],
    cancelling: threading.Event,
) -> DataFrame:
    """Execute a statement of Headrace's own, and return its rows.

    Args:
        clone_session: Returns a session like `session`, for views that no statement sees.
        cancelling: Set when the statement is to be cancelled.

    Raises:
        InvalidStream: The stream cannot be read, or it reads a temporary view.
        KnownFailure: The query of a SAVE STREAM could not be started.
        Cancelled: The statement was cancelled before the query had started.
        PySparkException: Spark refuses the stream.
    """
    if assignment.query is not None:
        return _start_query(session, assignment, supervisor, cancelling)
    command = parse(assignment.text).command
    if isinstance(command, CreateStream | CreateStreamAs):
        _check_stream(clone_session(), command, assignment.definitions)
    elif isinstance(command, CreateSink):
        if not find_sink(command.provider).is_listed:
            check_sink(session, command.provider)
        if command.columns is not None:
            session.createDataFrame([], columns_to_ddl(command.columns))
    return empty_frame(session)


def describe_rows(assignment: Assignment) -> str | None:
    """Return where the rows of the query are to be found that a statement starts; None for none."""
    query = assignment.query
    if query is None:
        return None
    name, rows_are = shlex.quote(query.name), find_sink(query.spec.sink).rows_are
    state = f"Its state: headrace stream show {name}"
    if rows_are is not None:
        place = rows_are.format(name=name, view=quote_name(query.name))
        return f"The rows of the query are {place}. {state}"
    if query.spec.path is not None:
        return f"The query writes to {query.spec.path}. {state}"
    return state


def _check_stream(
    session: SparkSession, command: CreateStream | CreateStreamAs, definitions: list[str]
) -> None:
    """Raise an error unless every session can read the stream that a statement defines."""
    defined = register_streams(session, definitions)
    frame = open_stream(session, command)
    views = find_temporary_views(frame, defined) if isinstance(command, CreateStreamAs) else []
    if views:
        raise InvalidStream(
            f"The stream {command.name} reads the temporary view {views[0]}, which only this"
            f" session has: the stream would not outlive it. Define it as a stream instead:"
            f" CREATE STREAM {views[0]} …"
        ).with_condition(*TEMPORARY_REFERENCE)


def _start_query(
    session: SparkSession,
    assignment: Assignment,
    supervisor: Supervisor,
    cancelling: threading.Event,
) -> DataFrame:
    desired = assignment.query
    assert desired is not None
    scope = desired.spec.scope or read_scope(session)
    spec = desired.spec.model_copy(update={"scope": scope})
    query = supervisor.start(desired.model_copy(update={"spec": spec}))
    state = _wait_for_start(query, cancelling)
    if state is None:
        supervisor.abandon(desired.id)
        raise Cancelled
    report = query.report()
    if state is StreamState.FAILED and report.error is not None:
        supervisor.abandon(desired.id)
        raise KnownFailure(report.error)
    checkpoint = desired.spec.checkpoint
    location = "CAST(NULL AS STRING)" if checkpoint is None else quote_string(checkpoint)
    # A constant row needs no Spark job and no Python worker, which would slow down the query.
    return session.sql(
        f"SELECT {quote_string(desired.name)} AS query, {quote_string(desired.id)} AS id,"
        f" {location} AS checkpoint"
    )


def _wait_for_start(query: SupervisedQuery, cancelling: threading.Event) -> StreamState | None:
    """Return the state after the first start; None if the statement was cancelled before."""
    while True:
        state = query.wait_for_outcome(_WAIT_SECONDS)
        if state is not None:
            return state
        if cancelling.is_set():
            return None
