"""Runs one statement: plan it, run it, write its result, and describe how it ended."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.connections import ConnectionSession, ConnectionSessions
from headrace.driver.ctas import Cancelled, CommitUnfinished
from headrace.driver.ctas.view_switch import read_scope
from headrace.driver.execution_plan import ExecutionPlan, TableOutcome
from headrace.driver.failures import describe_failure
from headrace.driver.hooks import Hooks, StatementFacts, load_hooks, report_lost_attempt
from headrace.driver.jobs.bound_rows import bind_rows
from headrace.driver.jobs.tasks import run_task
from headrace.driver.link import NodeLink, NoNodeAnswers
from headrace.driver.output import OutputOptions, write_result
from headrace.driver.output.held_results import HeldResults
from headrace.driver.planner import plan_statement
from headrace.driver.secret_values import SecretValues
from headrace.driver.spark import Spark
from headrace.driver.spark_version.catalog_objects import LIST_STATEMENTS, list_objects
from headrace.driver.spark_version.lineage import (
    list_tables_of_frame,
    list_tables_of_plan,
    may_name_tables,
)
from headrace.driver.spark_version.metrics import count_written_rows
from headrace.driver.spark_version.parameters import empty_frame
from headrace.driver.spark_version.session_state import override_for_statement
from headrace.driver.state import SessionStateTracker
from headrace.driver.streams.named_streams import (
    NamedStreams,
    NeedsOwnSession,
    explain_endless_rows,
)
from headrace.driver.streams.statements import describe_rows, run_stream_statement
from headrace.driver.streams.supervisor import Supervisor
from headrace.driver.system_tables import open_system_tables
from headrace.driver.views.planner import VIEW_STATEMENTS, ViewPlanner
from headrace.driver.writes.locks import find_writes_patiently, wait_for_lock
from headrace.errors import DriverLost, HeadraceError, LeaseLost
from headrace.grammar.metadata import ListObjects
from headrace.grammar.parse import parse
from headrace.model.expectation import ExpectationCounts
from headrace.model.failure import Failure
from headrace.model.job_messages import ROWS_VIEW, BindRows, JobOutcome
from headrace.model.lifecycle import StatementState
from headrace.model.lineage import TableUse
from headrace.model.materialized_view import NameScope
from headrace.model.messages import Assignment, Ended
from headrace.model.result import Disposition, ResultReport, make_location
from headrace.model.session import Snapshot
from headrace.model.statement import Progress
from headrace.model.text import MAX_SUMMARY, cut_text

_LOG = logging.getLogger("headrace.driver")
_POOL = "spark.scheduler.pool"
"""Each thread has a pool of its own: the FAIR scheduler shares the slots among busy pools."""
_DESCRIPTION, _SEARCHED = 200, 8192
"""Characters of a statement that Spark's UI shows, and those that are searched for secrets: a text
can have 1 MiB, and each statement would pay for the search."""
_CANCEL_EVERY_SECONDS = 0.1
_JVM_EXIT_SECONDS = 2.0
"""Time that a JVM may need to exit after its connections have broken."""
_DRIVER_ERRORS = (LeaseLost, NoNodeAnswers)
"""Errors that end the driver instead of the statement."""
_LIVE_JVM_ERRORS = (PySparkException, Py4JJavaError, HeadraceError)
"""Errors that do not suggest that the JVM is dying."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """End of an execution, with a result or with a failure."""

    state: StatementState
    result: ResultReport | None = None
    failure: Failure | None = None


class Execution:
    """One attempt to run one statement, in the thread that calls `run`."""

    def __init__(
        self,
        spark: Spark,
        link: NodeLink,
        assignment: Assignment,
        supervisor: Supervisor,
        held: HeldResults | None = None,
        connections: ConnectionSessions | None = None,
    ) -> None:
        self._rows: BindRows | None = None
        if isinstance(assignment.task, BindRows):
            # It is a statement of Spark's own, apart from the rows that it reads.
            self._rows = assignment.task
            assignment = assignment.model_copy(update={"command": None, "task": None})
        self.assignment = assignment
        self._connections = connections
        self._connection: ConnectionSession | None = None
        self._held = held
        self._spark = spark
        self._supervisor = supervisor
        self._link = link
        self._secrets = SecretValues(link)
        self._resolved = assignment
        """The assignment with the values of secrets."""
        self._bootstrap = link.bootstrap
        self._plan: ExecutionPlan | None = None
        self._frame: DataFrame | None = None
        self._hooks = Hooks(self._facts, [], None)
        self._started_hooks = False
        self.reported_start = False
        """Whether the execution itself has reported that the statement runs."""
        self._requested_lock = False
        self._is_tagged = False
        self._note: str | None = None
        self._task_outcome: JobOutcome | None = None
        self._tracker: SessionStateTracker | None = None
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._cancelling = threading.Event()

    @property
    def cancelling(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelling.is_set()

    def run(self) -> Ended:
        """Run the statement and return the report of its end, also for an error of the user's SQL.

        Raises DriverLost if the JVM has died. Raises LeaseLost and NoNodeAnswers if a step of a
        table transaction cannot be written to the journal.
        """
        self._began = time.monotonic()
        try:
            outcome = _Outcome(StatementState.SUCCESS, result=self._execute())
        except _DRIVER_ERRORS:
            raise
        except CommitUnfinished as error:
            raise DriverLost(error.message) from error
        except Exception as error:
            exit_seconds = 0.0 if isinstance(error, _LIVE_JVM_ERRORS) else _JVM_EXIT_SECONDS
            if not self._spark.is_alive(exit_seconds=exit_seconds):
                raise DriverLost("The JVM of the driver died.") from error
            if self._spark.has_stopped():
                raise DriverLost("The Spark application of the driver was stopped.") from error
            outcome = self._handle_failure(error)
        finally:
            self._ended.set()
        return self._report(outcome)

    def read_age(self) -> float:
        """Return the time since the start of the execution, in seconds."""
        return time.monotonic() - self._began

    def wait_for_end(self, seconds: float) -> bool:
        """Wait until the statement has ended; return False if it still runs after `seconds`."""
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """Start to cancel the Spark work, and repeat the cancel until `run` returns.

        A single cancel would miss a job that starts later, for example after planning. Work that
        Spark cannot cancel, such as a file listing in the driver, runs to its own end.
        """
        if not self.cancelling:
            self._cancelling.set()
            threading.Thread(target=self._keep_cancelling, daemon=True).start()

    def _execute(self) -> ResultReport:
        assignment, context = self.assignment, self._spark.context
        self._spark.prepare_thread()
        # The options of a stream may contain secrets, which Spark's UI would show.
        text = cut_text(assignment.text[:_SEARCHED], _DESCRIPTION)
        context.setJobDescription(assignment.command or text)
        self._resolved = self._secrets.resolve_assignment(assignment)
        if assignment.connection is not None:
            assert self._connections is not None
            self._connection = self._connections.take(assignment, self._secrets)
            self._spark = self._connection.spark
        if assignment.alone and not assignment.isolated and assignment.connection is None:
            return self._run_in(self._spark.session)
        context.setLocalProperty(_POOL, threading.current_thread().name)
        if assignment.connection is not None and assignment.command is None:
            # The statements of a connection run one after the other.
            return self._run_in(self._spark.session)
        if not assignment.is_query:
            return self._run_in(self._choose_session())
        if assignment.command is not None:
            # A task of a deployment leaves views and settings behind.
            return self._run_in(self._spark.clone_session())
        return self._run_query()

    def _run_query(self) -> ResultReport:
        """Run a query of Spark's own beside others."""
        # Nothing of a statement without a session may stay in the driver, and the catalogs that a
        # query loads under settings of its own stay in its session.
        if not (self.assignment.isolated or self.assignment.conf):
            with suppress(NeedsOwnSession), self._spark.query_sessions.borrow() as session:
                is_clone = session is not self._spark.session
                return self._run_in(session, may_register=is_clone)
        return self._run_in(self._spark.clone_session())

    def _run_in(self, session: SparkSession, *, may_register: bool = True) -> ResultReport:
        """Run the statement in a Spark session.

        Args:
            may_register: Whether the session may get temporary views of streams. If not, a
                statement that reads one raises NeedsOwnSession.
        """
        self._is_tagged = True
        self._spark.context.addJobTag(self.assignment.statement_id)
        if self._may_change_session:
            self._tracker = self._spark.track_state()
        streams = NamedStreams(session, self._secrets.find_streams, may_register=may_register)
        text = "" if self.assignment.command is not None else self._resolved.text
        try:
            with (
                override_for_statement(session, self._resolved.conf),
                open_system_tables(session, text, self._link),
            ):
                return self._run_plan(session, streams)
        finally:
            streams.drop()
            if self._rows is not None:
                session.catalog.dropTempView(ROWS_VIEW)

    def _bind_rows(self, session: SparkSession) -> None:
        if self._rows is not None:
            bind_rows(session, self._rows.code, self._resolved.parameters)

    def _run_plan(self, session: SparkSession, streams: NamedStreams) -> ResultReport:
        """Plan and run the statement, with the named streams that it reads."""
        is_spark, text = self.assignment.command is None, self._resolved.text
        if is_spark and not self.assignment.is_query:
            streams.prepare_script(text)
        if is_spark:
            plan = streams.call(lambda: self._make_plan(session), text)
        else:
            plan = self._make_plan(session)
        self._plan = plan
        if not self._started_hooks:
            self._start_hooks(plan)
        try:
            self._prepare_writes(plan)
            self._announce_effects(plan)
            if is_spark and plan.hook is None:
                self._frame = streams.call(plan.run, text)
            else:
                self._frame = plan.run()
            if plan.checks is not None:
                plan.check_rows(self._frame, self._count_written_rows(self._read_progress()))
            report = self._write_result(plan, session)
        finally:
            if self._hooks.has_active:
                # Hooks publish or remove a table: a cancel must not interrupt their jobs.
                self.remove_job_tag()
        self._hooks.notify_finished(can_veto=plan.can_be_vetoed)
        return report

    def _write_result(self, plan: ExecutionPlan, session: SparkSession) -> ResultReport:
        """Write the rows of the statement.

        An error does not undo what a catalog has committed: then the result is empty, with a note.
        """
        assert self._frame is not None
        options, hook = self._output_options(), plan.hook
        try:
            return write_result(self._frame, options)
        except (HeadraceError, PySparkException, Py4JError) as error:
            self.remove_job_tag()
            if hook is None or not (hook.commits_natively and hook.must_roll_forward()):
                raise
            message = describe_failure(error, self.assignment.text).message
            self._note = f"The rows that the statement returns could not be stored: {message}"
            inline = replace(options, disposition=Disposition.INLINE)
            return write_result(empty_frame(session), inline)

    def _choose_session(self) -> SparkSession:
        """Return the Spark session for a statement that is no query."""
        if not self.assignment.isolated:
            return self._spark.session
        # The clone takes over what this prepares.
        self._spark.prepare_changes()
        return self._spark.clone_session()

    def _make_plan(self, session: SparkSession) -> ExecutionPlan:
        if self.assignment.command is None:
            return plan_statement(
                session,
                self._resolved,
                self._link,
                self._facts,
                bind_rows=lambda: self._bind_rows(session),
            )
        if self.assignment.task is not None:
            return ExecutionPlan(run=lambda: self._run_task(session), may_write=False)
        if self.assignment.command in LIST_STATEMENTS:
            command = parse(self.assignment.text).command
            assert isinstance(command, ListObjects)
            return ExecutionPlan(run=lambda: list_objects(session, command))
        if self.assignment.command in VIEW_STATEMENTS:
            planner = ViewPlanner(
                self._spark.clone_session(), self._resolved, self._link, self._cancelling
            )
            return planner.plan(self._facts)
        return ExecutionPlan(
            note=describe_rows(self.assignment),
            run=lambda: run_stream_statement(
                session,
                self._resolved,
                self._supervisor,
                clone_session=self._spark.clone_session,
                cancelling=self._cancelling,
            ),
        )

    def _run_task(self, session: SparkSession) -> DataFrame:
        """Carry out a task of a deployment, and return no rows."""
        assert self._resolved.task is not None
        self._task_outcome = run_task(session, self._resolved.task, self._spark.clone_session)
        return empty_frame(session)

    def _prepare_writes(self, plan: ExecutionPlan) -> None:
        """Wait until the statement may write.

        Raises Cancelled, WriteTargetsUnknown and the errors of NodeLink.
        """
        if self.assignment.is_query:
            return
        self._spark.prepare_changes()
        if plan.find_writes is None:
            return
        writes = find_writes_patiently(plan.find_writes, self._cancelling)
        if writes is not None:
            self._requested_lock = True
            wait_for_lock(
                self._link,
                self.assignment.statement_id,
                writes,
                self._cancelling,
                on_blocked=plan.on_blocked,
            )

    def _announce_effects(self, plan: ExecutionPlan) -> None:
        """Report that the statement may now change something that cannot be rolled back.

        The loss of a driver before this report does not fail the statement. Raises LeaseLost if
        the statement belongs to this driver no more, and the errors of NodeLink.
        """
        if self.assignment.is_query or plan.hook is not None or plan.changes_nothing:
            return
        tag = self.assignment.statement_id
        if not self._link.report_start(tag, self.read_age, has_effects=True).applied:
            raise LeaseLost(f"The driver does not own {tag} any more.")
        self.reported_start = True

    def _start_hooks(self, plan: ExecutionPlan | None) -> None:
        """Call `on_created` of the users' hooks, then of Headrace's own hook.

        In this order, a statement that a user's hook refuses publishes no table.

        Args:
            plan: None: the statement is refused, and the hooks cannot change that.
        """
        self._started_hooks = True
        facts, can_veto = self._facts, plan is not None and not plan.completed_earlier
        if facts.attempt > 1:
            report_lost_attempt(replace(facts, attempt=facts.attempt - 1))
        own = None if plan is None else plan.hook
        self._hooks = Hooks(facts, load_hooks(facts, can_veto=can_veto), own)
        self._hooks.notify_created(can_veto=can_veto)

    def _keep_cancelling(self) -> None:
        tag = self.assignment.statement_id
        while True:
            try:
                self._spark.context.cancelJobsWithTag(tag)
                # The jobs of a streaming query do not carry the tag.
                self._spark.stop_stream(tag)
            except (Py4JError, OSError) as error:
                _LOG.warning("statement %s: a cancel failed and is repeated: %s", tag, error)
            if self._ended.wait(_CANCEL_EVERY_SECONDS):
                return

    def _handle_failure(self, error: Exception) -> _Outcome:
        """Call the hooks for a failed or cancelled statement, and return its outcome."""
        error = explain_endless_rows(error)
        if self._plan is not None and self._plan.checks is not None:
            error = self._plan.checks.explain(error)
        failure = describe_failure(error, self.assignment.text)
        if not self._started_hooks:
            self._start_hooks(None)
        if self.cancelling or isinstance(error, Cancelled):
            self._hooks.notify_cancelled()
            return _Outcome(StatementState.CANCELLED, failure=failure)
        self._hooks.notify_failed(error)
        summary = cut_text(failure.message.partition("\n")[0], MAX_SUMMARY)
        _LOG.warning("statement %s failed: %s", self.assignment.statement_id, summary)
        return _Outcome(StatementState.FAILED, failure=failure)

    def _report(self, outcome: _Outcome) -> Ended:
        table, progress, rows_written = TableOutcome(), self._read_progress(), None
        if self._plan is not None and outcome.state is StatementState.SUCCESS:
            table = self._plan.describe_outcome()
            if self._plan.hook is None or table.committed is not None:
                rows_written = self._count_written_rows(progress)
        note = self._add_losses(self._note or table.note)
        succeeded = outcome.state is StatementState.SUCCESS
        snapshot = self._capture_changes() if self._has_database or succeeded else None
        if self._connection is not None and (self._has_database or succeeded):
            self._keep_connection(self._connection, snapshot)
        return Ended(
            statement_id=self.assignment.statement_id,
            state=outcome.state,
            result=outcome.result,
            failure=outcome.failure,
            committed=table.committed,
            atomic=table.atomic,
            wrote=self._requested_lock,
            note=note,
            rows_written=rows_written,
            progress=progress,
            scope=None if self.assignment.query is None else self._read_scope(),
            task_outcome=self._task_outcome,
            expectation_counts=self._read_counts(outcome),
            snapshot=snapshot,
            ran_seconds=self.read_age(),
            lineage=self._list_tables() if succeeded else [],
        )

    def _read_counts(self, outcome: _Outcome) -> ExpectationCounts | None:
        """Return what was counted for the expectations of the statement."""
        counts = None if self._plan is None else self._plan.expectation_counts
        if counts is None or outcome.state is StatementState.SUCCESS:
            return counts
        return counts.model_copy(update={"rows_written": None})

    def _list_tables(self) -> list[TableUse]:
        """Return the tables that the statement has read and written, as far as Spark names them."""
        plan, frame = self._plan, self._frame
        if plan is None or frame is None or not may_name_tables(self.assignment.text):
            return []
        try:
            if plan.analysed is not None:
                return list_tables_of_plan(frame.sparkSession, plan.analysed, plan.written)
            return [] if self.assignment.command is not None else list_tables_of_frame(frame)
        except (Py4JError, OSError) as error:
            _LOG.warning("statement %s: no lineage: %s", self.assignment.statement_id, error)
            return []

    def _read_progress(self) -> Progress | None:
        """Return the final progress; None if there was no job."""
        tag = self.assignment.statement_id
        try:
            return self._spark.progress.read_final(tag)
        except (Py4JError, OSError) as error:
            _LOG.warning("statement %s: no progress: %s", tag, error)
            return None

    def _read_scope(self) -> NameScope | None:
        """Return the catalog and namespace in which the query of a SAVE STREAM has started."""
        try:
            return read_scope(self._spark.session)
        except (Py4JError, OSError) as error:
            _LOG.warning("statement %s: no namespace: %s", self.assignment.statement_id, error)
            return None

    def _count_written_rows(self, progress: Progress | None) -> int | None:
        """Return the number of rows that an INSERT or a CTAS has written, if Spark counts them."""
        plan = self._plan
        if self.assignment.is_query or self._frame is None or plan is None or not plan.may_write:
            return None
        hook = plan.hook
        if hook is not None and hook.rows_written is not None:
            return hook.rows_written
        try:
            jobs = self._spark.progress.find_jobs(self.assignment.statement_id)
            return count_written_rows(self._frame, jobs, progress)
        except (Py4JError, OSError) as error:
            _LOG.warning("statement %s: rows not counted: %s", self.assignment.statement_id, error)
            return None

    @property
    def _may_change_session(self) -> bool:
        """Whether the statement may change the session. One on streams changes the store."""
        assignment = self.assignment
        return not (assignment.is_query or assignment.isolated or assignment.command is not None)

    @property
    def _has_database(self) -> bool:
        """Whether the session has the current database that it had after its last statement."""
        return self._connection is None or self._connection.has_database

    def _add_losses(self, note: str | None) -> str | None:
        """Return the note of the statement, with what its connection has lost, if it has."""
        lost = [] if self._connection is None else self._connection.take_lost()
        if not lost:
            return note
        text = cut_text(f"The connection has lost: {'; '.join(lost)}", MAX_SUMMARY)
        return text if note is None else f"{note} {text}"

    def _keep_connection(self, connection: ConnectionSession, snapshot: Snapshot | None) -> None:
        """Keep the session for the next statement, which comes as soon as this end is reported."""
        assert self._connections is not None
        connection.has_database = True
        if snapshot is not None:
            connection.changed_by = self.assignment.statement_id
        self._connections.keep(connection)

    def _capture_changes(self) -> Snapshot | None:
        """Return the session state if the statement may have changed it, even if it failed."""
        if self._tracker is None or (self._plan is not None and self._plan.hook is not None):
            # A statement in two phases changes a table, but not the session.
            return None
        try:
            return self._tracker.capture_changes()
        except (Py4JError, OSError) as error:
            # The last snapshot stays valid. The next lease renewal detects a dead JVM.
            _LOG.warning("statement %s: no snapshot: %s", self.assignment.statement_id, error)
            return None

    def remove_job_tag(self) -> None:
        """Remove the statement's tag from this thread, which can then run other statements."""
        if not self._is_tagged:
            return
        self._is_tagged = False
        tag = self.assignment.statement_id
        try:
            self._spark.context.removeJobTag(tag)
        except (Py4JError, OSError) as error:
            _LOG.warning("statement %s: its job tag was not removed: %s", tag, error)

    @property
    def _facts(self) -> StatementFacts:
        assignment = self.assignment
        return StatementFacts(
            id=assignment.statement_id,
            session_id=self._bootstrap.session_id,
            text=assignment.text,
            attempt=assignment.attempt,
        )

    def _output_options(self) -> OutputOptions:
        assignment, bootstrap = self.assignment, self._bootstrap
        request = assignment.result_request
        base = request.location or bootstrap.results
        default = make_location(base, assignment.statement_id, bootstrap.epoch, assignment.attempt)
        return OutputOptions(
            disposition=request.disposition,
            row_limit=request.row_limit,
            byte_limit=request.byte_limit,
            location=assignment.result_location or default,
            inline_limit=bootstrap.inline_limit,
            chunk_limit=bootstrap.chunk_limit,
            statement_id=assignment.statement_id,
            held=self._held,
        )
