"""Runs of streaming queries in Spark, each in a session of its own."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.driver.ctas.session_catalog import SessionCatalog
from headrace.driver.ctas.view_switch import read_scope, set_scope
from headrace.driver.failures import describe_failure, describe_java_error
from headrace.driver.secret_values import SecretValues
from headrace.driver.spark_version.application import has_stopped
from headrace.driver.spark_version.bridge import activate, parse_plan
from headrace.driver.spark_version.errors import is_lost_jvm, is_permanent_cause
from headrace.driver.spark_version.hadoop_files import HadoopFiles
from headrace.driver.spark_version.session_state import override_for_statement
from headrace.driver.spark_version.streams import (
    find_java_error,
    find_last_epoch,
    find_last_report,
    find_later_run,
    has_ended_by_itself,
    list_reports,
    wait_for_end,
)
from headrace.driver.streams.batch_run import check_batch, start_batch, use_stream_pool
from headrace.driver.streams.checkpoint_marker import CheckpointClaims, FindMarked, check_checkpoint
from headrace.driver.streams.classify import BatchErrors, is_permanent
from headrace.driver.streams.file_sink import check_file_log, find_last_planned
from headrace.driver.streams.job_rows import open_job_rows, run_setup
from headrace.driver.streams.lineage import list_stream_tables
from headrace.driver.streams.named_streams import NamedStreams
from headrace.driver.streams.row_checks import StreamRowChecks
from headrace.driver.streams.sinks import prepare_query
from headrace.driver.streams.sources import explain_missing_source, open_source, register_streams
from headrace.driver.streams.supervised_query import Run, RunFailed
from headrace.driver.streams.view_refresh import open_view_rows, prepare_refresh
from headrace.driver.writes.locks import WriteDetector
from headrace.errors import (
    CheckpointTakenOver,
    ExpectationFailed,
    HeadraceError,
    StreamStopped,
)
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.grammar.materialized_views import CreateMaterializedView
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_statements import SaveStream
from headrace.model.failure import Failure
from headrace.model.lineage import TableUse
from headrace.model.materialized_view import NameScope
from headrace.model.messages import AnnounceWrites
from headrace.model.session import DriverLease, SessionView
from headrace.model.stream_history import BatchPart
from headrace.model.stream_query import DesiredQuery, QueryProgress
from headrace.model.text import cut_text


def _to_progress(report: Mapping[str, Any], checks: StreamRowChecks) -> QueryProgress:
    operators = report.get("stateOperators", [])
    return QueryProgress(
        batch=report["batchId"],
        at=report["timestamp"],
        input_rows=max(0, report.get("numInputRows", 0)),
        input_rate=_rate(report.get("inputRowsPerSecond")),
        process_rate=_rate(report.get("processedRowsPerSecond")),
        milliseconds=report.get("batchDuration", report["durationMs"].get("triggerExecution", 0)),
        parts=_list_parts(report["durationMs"]),
        watermark=report.get("eventTime", {}).get("watermark"),
        late_rows=sum(operator.get("numRowsDroppedByWatermark", 0) for operator in operators),
        state_rows=sum(operator.get("numRowsTotal", 0) for operator in operators),
        state_bytes=sum(operator.get("memoryUsedBytes", 0) for operator in operators),
        lag=_lag(report.get("sources", [])),
        expectation_counts=checks.read_counts(report),
    )


def _list_parts(durations: Mapping[str, Any]) -> dict[str, int]:
    """Return the milliseconds of the parts of a batch, as far as Spark reports them."""
    names = {part: re.sub(r"_(\w)", lambda found: found[1].upper(), part) for part in BatchPart}
    return {part: max(0, int(durations[name])) for part, name in names.items() if name in durations}


def _rate(value: object) -> float:
    """Return a rate; 0 if Spark could not compute it (NaN, Infinity or missing)."""
    if not isinstance(value, int | float) or not 0 <= value < 1e15:
        return 0.0
    return float(value)


def _lag(sources: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many records each source still has, for the sources that say so."""
    lags = {}
    for source in sources:
        value = source.get("metrics", {}).get("maxOffsetsBehindLatest")
        if value is not None:
            lags[cut_text(str(source.get("description", "")), 200)] = int(float(value))
    return lags


def create_views(session: SparkSession, views: Iterable[SessionView]) -> None:
    """Create temporary views, in this order. Raise what Spark raises."""
    for view in views:
        columns = f" ({', '.join(map(quote_name, view.columns))})" if view.columns else ""
        text = f"CREATE OR REPLACE TEMPORARY VIEW {quote_name(view.name)}{columns} AS {view.query}"
        with (
            _scope_of(session, view),
            override_for_statement(session, _changed(session, view.conf)),
        ):
            session.sql(text)


@contextmanager
def _scope_of(session: SparkSession, view: SessionView) -> Iterator[None]:
    before = read_scope(session)
    scope = NameScope(catalog=view.catalog, namespace=view.namespace)
    if scope == before:
        yield
        return
    set_scope(session, scope)
    try:
        yield
    finally:
        set_scope(session, before)


def _changed(session: SparkSession, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration that differs from that of the session, as far as it can be set."""
    changed: dict[str, str] = {}
    for key, value in conf.items():
        with suppress(PySparkException):
            if session.conf.isModifiable(key) and session.conf.get(key, None) != value:
                changed[key] = value
    return changed


_LOG = logging.getLogger("headrace.driver.streams")
_WAIT_MILLISECONDS = 500
_SUCCESSOR_SECONDS = 2.0
"""Time in which another run of the checkpoint registers, after Spark has stopped this one."""
_SUCCESSOR_POLL_SECONDS = 0.1
_STOPPED = Failure(
    code=StreamStopped.code,
    message="Code in the driver stopped the query, for example with query.stop() in a UDF."
    " STOP STREAM stops a query for good.",
)


class SparkRun:
    """One run of a query."""

    def __init__(
        self,
        session: SparkSession,
        query: StreamingQuery,
        errors: BatchErrors,
        checks: StreamRowChecks,
        lineage: Sequence[TableUse],
    ) -> None:
        """Watch a query that has started, the errors of its batches, and its expectations."""
        self.run_id = query.runId
        self.lineage = lineage
        self._checks = checks
        self._session = session
        self._query = query
        self._errors = errors
        self._last_report: str | None = None
        self._first_epoch = self._read_epoch()

    def wait(self) -> bool:
        """Wait for half a second for the end; return whether the sources have ended.

        Raises RunFailed, also if something else has stopped the query. Raises ConnectionError if
        the Spark application has stopped.
        """
        try:
            if not wait_for_end(self._query, _WAIT_MILLISECONDS):
                return False
            if has_ended_by_itself(self._session, self._query):
                return True
            self._check_application()
            later = self._wait_for_later_run()
        except Py4JNetworkError:
            raise
        except (PySparkException, Py4JError) as error:
            self._check_application()
            raise self._describe_end(error) from error
        if later is None:
            raise RunFailed(_STOPPED, is_permanent=False)
        taken = CheckpointTakenOver(
            f"Spark stopped the query, because another query (run {later}) has started with its"
            " checkpoint in the same driver.",
            hint="Stop that query, then RESTART STREAM continues this one.",
        )
        raise RunFailed(Failure.of(taken), is_permanent=True)

    def _check_application(self) -> None:
        """Raise ConnectionError if the Spark application has stopped: the driver then ends."""
        try:
            stopped = has_stopped(self._session.sparkContext)
        except (AttributeError, Py4JError) as error:
            raise ConnectionError("the Spark application does not answer") from error
        if stopped:
            raise ConnectionError("the Spark application was stopped")

    def _wait_for_later_run(self) -> str | None:
        """Return the id of the run for which Spark has stopped this one; None if there is none.

        Spark stops this run before it registers the other one.
        """
        deadline = time.monotonic() + _SUCCESSOR_SECONDS
        while (later := find_later_run(self._session, self._query)) is None:
            if time.monotonic() > deadline:
                return None
            time.sleep(_SUCCESSOR_POLL_SECONDS)
        return later

    def read_new_batches(self, after: int | None) -> list[QueryProgress]:
        """Return the progress of the committed batches after a number, oldest first."""
        try:
            last = find_last_report(self._query)
            if last == self._last_report:
                return []
            reports = list_reports(self._query, after)
            batches = [_to_progress(report, self._checks) for report in reports]
        except (PySparkException, Py4JError, ValueError) as error:
            _LOG.warning("query %s: no progress: %s", self._query.name, error)
            return []
        self._last_report = last
        return batches

    def find_new_epoch(self) -> int | None:
        """Return the last epoch that this run has committed, for TRIGGER CONTINUOUS; or None."""
        epoch = self._read_epoch()
        return None if epoch == self._first_epoch else epoch

    def stop(self) -> None:
        """Stop the query, and wait until it has stopped.

        `stop` raises an error after `spark.sql.streaming.stopTimeout`, while the query still runs.
        """
        while True:
            try:
                self._query.stop()
            except (PySparkException, Py4JError) as error:
                _LOG.warning("query %s: %s", self._query.name, error)
                if not is_lost_jvm(error) and self._query.isActive:
                    continue
            return

    def _read_epoch(self) -> int | None:
        try:
            return find_last_epoch(self._query)
        except (PySparkException, Py4JError) as error:
            _LOG.warning("query %s: no epoch: %s", self._query.name, error)
            return None

    def _describe_end(self, error: Exception) -> RunFailed:
        """Return the failure of the batch function, or the one that Spark keeps with the query."""
        violation = self._checks.explain(self._errors.last or error)
        if isinstance(violation, ExpectationFailed):
            return RunFailed(Failure.of(violation), is_permanent=True)
        if (batch_error := self._errors.last) is not None:
            permanent = is_permanent(batch_error) and not is_lost_jvm(batch_error)
            return RunFailed(describe_failure(batch_error, ""), is_permanent=permanent)
        try:
            cause = find_java_error(self._query)
            if cause is not None:
                failure, permanent = describe_java_error(cause), is_permanent_cause(cause)
                return RunFailed(failure, is_permanent=permanent)
        except (PySparkException, Py4JError):
            _LOG.warning("query %s: its failure cannot be read", self._query.name)
        return RunFailed(describe_failure(error, ""), is_permanent=is_permanent(error))


class RunStarter:
    """Starts the runs of the queries of one driver."""

    def __init__(
        self,
        clone_session: Callable[[], SparkSession],
        lease: DriverLease,
        find_marked: FindMarked,
        secrets: SecretValues,
        *,
        announce_writes: Callable[[AnnounceWrites], None] = lambda _message: None,
    ) -> None:
        """Create a starter.

        Args:
            clone_session: Returns a session like that of the statements.
            lease: Session and epoch of the driver.
            find_marked: Asks the node about the query that has marked a checkpoint.
            secrets: Finds the values of secrets, and the streams that a temporary view of the
                session reads.
            announce_writes: Notes the tables of files to which a query will write, so that later
                drivers remove what this one stages in them.
        """
        self._announce_writes = announce_writes
        self._secrets = secrets
        self._clone_session = clone_session
        self._epoch = lease.epoch
        self._claims = CheckpointClaims(lease, find_marked)

    def start(self, desired: DesiredQuery) -> Run:
        """Start a run, which continues from the checkpoint. Raises RunFailed."""
        try:
            spec = self._secrets.resolve_spec(desired.spec)
            desired = desired.model_copy(update={"spec": spec})
            command = parse(desired.spec.text).command
            assert isinstance(command, SaveStream | CreateMaterializedView)
            errors = BatchErrors(partial(self._announce, desired))
            # Each run gets a session of its own, because a failed one may have changed it.
            session = self._clone_session()
            use_stream_pool(session)
            # Catalogs and connectors, Delta's for one, read the active session of the thread.
            activate(session)
            for key, value in desired.spec.conf.items():
                session.conf.set(key, value)
            desired = _with_hadoop_locations(session, desired)
            if desired.spec.scope is not None:
                set_scope(session, desired.spec.scope)
            check_checkpoint(session, desired)
            checks = StreamRowChecks(desired.spec.expectations)
            if isinstance(command, CreateMaterializedView):
                register_streams(session, desired.spec.definitions)
                rows = open_view_rows(session, desired, command)
                lineage = list_stream_tables(rows, desired, None)
                start = prepare_refresh(rows, desired, command, errors, checks)
            else:
                rows = self._open_rows(session, desired, command)
                lineage = list_stream_tables(rows, desired, command)
                rows = checks.add_to(rows, partial(find_last_planned, session, desired.spec))
                if not rows.isStreaming:
                    rows = check_batch(rows, desired.spec, command)
                    self._claims.claim(session, desired)
                    self._announce(desired, session)
                    return start_batch(rows, desired, command, lineage)
                start = prepare_query(rows, desired, command, errors, epoch=self._epoch)
            # Only now: a query that is refused leaves nothing in the checkpoint.
            self._claims.claim(session, desired)
            query = start()
        except Py4JNetworkError:
            raise
        except (PySparkException, Py4JError, HeadraceError) as error:
            if is_lost_jvm(error):
                # The driver notices that by itself.
                raise RunFailed(describe_failure(error, ""), is_permanent=False) from error
            failure = describe_failure(error, _text_of(desired))
            raise RunFailed(failure, is_permanent=is_permanent(error)) from error
        return SparkRun(session, query, errors, checks, lineage)

    def _announce(self, desired: DesiredQuery, session: SparkSession) -> None:
        """Note the table of files that a query inserts into, if there is one.

        Raises LeaseLost and NoNodeAnswers.
        """
        command = parse(desired.spec.text).command
        if not (isinstance(command, SaveStream) and command.to_table):
            return
        name = qualified_name_to_sql(command.target)
        insert = f"INSERT INTO {name} VALUES (1)"  # noqa: S608 - it is only parsed
        writes = WriteDetector(session).find_writes(parse_plan(session, insert))
        if writes:
            identity = SessionCatalog(session, "spark_catalog").identity()
            message = AnnounceWrites(query_id=desired.id, identity=identity, writes=writes)
            self._announce_writes(message)

    def _open_rows(
        self, session: SparkSession, desired: DesiredQuery, command: SaveStream
    ) -> DataFrame:
        if desired.spec.rows is not None:
            # A job has only the streams of its deployment.
            return _open_rows(session, desired, command)
        streams = NamedStreams(session, self._secrets.find_streams)
        try:
            return streams.call(lambda: _open_rows(session, desired, command))
        except AnalysisException as error:
            raise explain_missing_source(error, command) from error


def _open_rows(session: SparkSession, desired: DesiredQuery, command: SaveStream) -> DataFrame:
    spec = desired.spec
    check_file_log(session, spec)
    if spec.rows is None:
        streams = register_streams(session, spec.definitions)
        create_views(session, spec.views)
        views = [view.name for view in spec.views]
        return open_source(session, command, [name for name in streams if name not in views])
    run_setup(session, spec.rows.setup, spec.definitions, persists=True)
    return open_job_rows(session, spec, spec.rows, command)


def _text_of(desired: DesiredQuery) -> str:
    """Return the user's text to which the positions of errors refer."""
    rows = desired.spec.rows
    return desired.spec.text if rows is None or rows.sql is None else rows.sql


def _with_hadoop_locations(session: SparkSession, desired: DesiredQuery) -> DesiredQuery:
    """Return a query whose locations Hadoop can read."""
    files, locations = HadoopFiles(session), (desired.spec.checkpoint, desired.spec.path)
    checkpoint, path = (each if each is None else files.to_hadoop(each) for each in locations)
    spec = desired.spec.model_copy(update={"checkpoint": checkpoint, "path": path})
    return desired.model_copy(update={"spec": spec})
