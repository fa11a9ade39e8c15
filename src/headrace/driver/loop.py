"""The main loop of a driver: poll for orders, and run each statement in a thread.

Threads are reused. A new thread needs a new py4j connection and a new thread in the JVM, which
takes longer than to plan a small statement.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.driver.connections import ConnectionSessions
from headrace.driver.ctas import recover
from headrace.driver.execute import Execution
from headrace.driver.hooks import report_ended_statements
from headrace.driver.jvm_start import MetastoreStart
from headrace.driver.lease_renewal import LeaseRenewal
from headrace.driver.link import LinkRefused, NodeLink, NoNodeAnswers
from headrace.driver.output.held_results import HeldResults
from headrace.driver.progress import ExecutionReporter, ProgressReporter
from headrace.driver.secret_values import SecretValues
from headrace.driver.spark import Spark
from headrace.driver.streams.spark_run import RunStarter
from headrace.driver.streams.supervisor import Supervisor
from headrace.driver.views.intents import IntentWork, carry_out_intents
from headrace.driver.warm_up import warm_up
from headrace.driver.writes.orphaned_staging import clear_orphaned_staging
from headrace.errors import DriverLost, HeadraceError, LeaseLost
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment
from headrace.model.session import DriverLease

_LOG = logging.getLogger("headrace.driver")
_EXIT_SHARE = 0.3
"""Share of the grace period of a close in which the process itself ends."""
_LONGEST_EXIT_SECONDS = 10.0
_START_REPORT_SECONDS = 0.1
"""A statement that ends sooner has no start report: the report of its end includes the start."""
_HEAD_START_SECONDS = 0.002
"""Time between the start of an execution and the next poll, unless the execution ends before."""
_RECOVERY_SECONDS = 5.0
"""Time that the first statement waits for the recovery of tables, which then continues."""
_LAST_REPORT_SHARE = 0.2
"""Share of the time of its exit in which the driver reports the last plans and stages."""
_THREADS = 64
_READER_SECONDS = 1.0
"""Time that the readers of held results have when the driver ends."""


class Loop:
    """Serves one session until it is closed."""

    def __init__(self, link: NodeLink, spark: Spark) -> None:
        self._link = link
        self._spark = spark
        self._executions: dict[str, Execution] = {}
        self._futures: set[Future[None]] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._is_terminating = threading.Event()
        self._fatal_error: HeadraceError | None = None
        self._secrets = SecretValues(link)
        starter = RunStarter(
            self._clone_for_stream,
            DriverLease(link.bootstrap.session_id, link.bootstrap.epoch),
            link.find_marked,
            self._secrets,
            announce_writes=link.announce_writes,
        )
        self._supervisor = Supervisor(
            start_run=starter.start,
            read_conf=lambda: spark.session.conf.getAll,
            on_change=self._report_streams,
        )
        bootstrap = link.bootstrap
        self._held = HeldResults(
            host=bootstrap.flight_host,
            secret=bootstrap.flight_secret,
            limit=bootstrap.memory_limit,
        )
        self._renewal = LeaseRenewal(
            link,
            spark,
            self._supervisor,
            self._abort,
            on_intents=self._request_intents,
            held=self._held,
        )
        self._executed = ExecutionReporter(link, spark.executions)
        self._connections = ConnectionSessions(spark, link)
        self._metastore = MetastoreStart(bootstrap)
        self._intents = IntentWork(self._carry_out_intents)
        self._workers = ThreadPoolExecutor(_THREADS, thread_name_prefix="headrace-run")
        self._reporters = ThreadPoolExecutor(_THREADS, thread_name_prefix="headrace-report")

    def terminate(self) -> None:
        """Say goodbye as a lost driver, and end the process. Called on SIGTERM.

        The next driver retries the statements that are safe to retry. They must not be reported as
        failed, although the same signal may end their JVM.
        """
        self._is_terminating.set()
        error = DriverLost("The driver process received SIGTERM.")
        # A signal handler must not wait for the lock of a call that it has interrupted.
        threading.Thread(target=self._abort, args=[error], daemon=True).start()

    def run(self) -> None:
        """Restore the session, then execute orders until the node closes the session.

        Raises LeaseLost, NoNodeAnswers and LinkRefused, and DriverLost if the JVM has died.
        """
        restored = self._link.restore()
        snapshot, hook_calls = restored.snapshot, restored.pending_hook_calls
        lost = []
        if snapshot is not None:
            self._metastore.start()
            lost = self._spark.track_state().restore(self._secrets.resolve_snapshot(snapshot))
        report_ended_statements(hook_calls, self._link.bootstrap.session_id)
        notified = [call.statement_id for call in hook_calls]
        self._link.hello(self._spark.build_hello(os.getpid(), lost=lost, notified=notified))
        self._metastore.start_soon()
        self._renewal.start()
        if restored.has_orphans:
            self._metastore.start()
            # Only after `hello`: a long recovery must not exceed the start timeout of the session.
            recovery = self._workers.submit(self._recover)
            self._futures.add(recovery)
            wait([recovery], _RECOVERY_SECONDS)
        self._workers.submit(self._clear_orphaned_staging)
        reporter = ProgressReporter(
            self._link, self._spark.progress, lambda: self._list_in_flight()[0]
        )
        reporter.start()
        if self._link.bootstrap.warm:
            self._metastore.start()
            # Warm up in a worker: a session may be assigned to this driver at any time.
            self._workers.submit(warm_up, self._spark, self._link.bootstrap)
        try:
            self._serve()
        except BaseException as error:
            # The lease may be lost: the JVM must not write anything from here on.
            self._spark.kill()
            if not self._held.close(_READER_SECONDS):
                # The Flight server waits for its readers, and Python would wait for the server.
                _LOG.error("driver stops while results are read: %s", error)
                os._exit(1)
            raise
        finally:
            reporter.stop()
            # Only now: the lease must last while statements stop.
            self._renewal.stop()
        self._raise_fatal_error()
        is_closed = self._held.close(_READER_SECONDS)
        self._link.goodbye()
        if not is_closed or any(not future.done() for future in self._futures):
            # They ignore their end: neither Spark nor Python would ever exit.
            _LOG.warning("the driver ends with statements or readers that did not stop")
            self._spark.kill()
            os._exit(0)

    def _serve(self) -> None:
        while not self._stopping.is_set():
            orders = self._link.poll(
                *self._list_in_flight(), streams_generation=self._supervisor.generation
            )
            self._raise_fatal_error()
            self._connections.drop_unused()
            if orders.streams is not None:
                self._supervisor.apply(orders.streams)
            for statement_id in orders.cancel:
                self._cancel(statement_id)
            assignment = orders.assignment
            if assignment is not None and assignment.statement_id not in self._executions:
                self._start(assignment)
            if orders.close:
                self._stopping.set()
        self._cancel_remaining()

    def _raise_fatal_error(self) -> None:
        if self._fatal_error is not None:
            raise self._fatal_error

    def _list_in_flight(self) -> tuple[list[str], list[str]]:
        """Return the ids of the statements in flight, and of those that are being cancelled."""
        with self._lock:
            cancelling = [key for key, value in self._executions.items() if value.cancelling]
            return list(self._executions), cancelling

    def _start(self, assignment: Assignment) -> None:
        self._metastore.start_for(assignment)
        execution = Execution(
            self._spark, self._link, assignment, self._supervisor, self._held, self._connections
        )
        with self._lock:
            self._executions[assignment.statement_id] = execution
        self._futures = {future for future in self._futures if not future.done()}
        self._futures.add(self._workers.submit(self._execute, execution))
        # Report in parallel: a round trip before the execution would delay the user's statement.
        self._reporters.submit(self._report_start, execution)
        # The next poll would compete with the first calls of the execution for the interpreter.
        execution.wait_for_end(_HEAD_START_SECONDS)

    def _clone_for_stream(self) -> SparkSession:
        """Return a session for a run of a streaming query."""
        self._spark.prepare_changes()
        return self._spark.clone_session()

    def _report_streams(self) -> None:
        """Report a change of a streaming query with a renewal of the lease."""
        self._renewal.request()

    def _request_intents(self) -> None:
        """Carry out intents beside the statements, because a node has some."""
        if self._intents.is_due():
            self._workers.submit(self._intents.run)

    def _carry_out_intents(self) -> int:
        """Carry out intents and resolve orphaned transactions. Return their number."""
        try:
            session = self._spark.clone_session()
            resolved = recover(session, self._link, should_stop=self._stopping.is_set)
            return resolved + carry_out_intents(session, self._link)
        except (HeadraceError, Py4JError, PySparkException) as error:
            # A lost lease is noticed by the next renewal.
            _LOG.info("intents for the catalog are not carried out: %s", error)
            return 0

    def _clear_orphaned_staging(self) -> None:
        try:
            clear_orphaned_staging(self._spark.session, self._link)
        except HeadraceError as error:
            # A lost lease is noticed by the next renewal.
            _LOG.info("staging directories of lost drivers are not removed: %s", error.message)

    def _report_start(self, execution: Execution) -> None:
        statement_id = execution.assignment.statement_id
        try:
            if not (execution.wait_for_end(_START_REPORT_SECONDS) or execution.reported_start):
                self._link.report_start(statement_id, execution.read_age)
        except LinkRefused as error:
            # The report of the end includes the start.
            _LOG.error("statement %s: %s", statement_id, error.message)
        except HeadraceError as error:
            self._abort(error)

    def _execute(self, execution: Execution) -> None:
        statement_id = execution.assignment.statement_id
        try:
            ended = execution.run()
            # The signal may have ended the JVM, and with it the statement.
            if ended.state is StatementState.SUCCESS or not self._is_terminating.is_set():
                self._link.report_end(ended)
                if ended.progress is not None:
                    self._executed.add(statement_id)
            execution.remove_job_tag()
            if ended.state is StatementState.SUCCESS:
                # From now on, the answers to renewals say whether a node needs the result.
                self._held.confirm(statement_id)
            else:
                self._held.release([statement_id])
        except HeadraceError as error:
            self._abort(error)
        except Exception as error:  # noqa: BLE001 - a driver that cannot report an end must stop
            _LOG.exception("statement %s: the driver cannot report its end", statement_id)
            self._abort(DriverLost(f"The driver could not report how the statement ended: {error}"))
        finally:
            # Only after the report: a statement that is not listed as in flight is assigned again.
            with self._lock:
                self._executions.pop(statement_id)
            self._metastore.start()

    def _recover(self) -> None:
        """Resolve the orphaned transactions of the session's catalogs, beside the statements."""
        try:
            recover(
                self._spark.session,
                self._link,
                should_stop=self._stopping.is_set,
                clone_session=self._spark.clone_session,
            )
        except (LeaseLost, NoNodeAnswers) as error:
            self._abort(error)
        except (HeadraceError, Py4JError, PySparkException, OSError) as error:
            # The transactions stay orphaned: another driver resolves them.
            _LOG.error("the recovery of tables ended early: %s", error)

    def _cancel(self, statement_id: str) -> None:
        with self._lock:
            execution = self._executions.get(statement_id)
        if execution is not None:
            execution.cancel()

    def _abort(self, error: HeadraceError) -> None:
        """Kill the JVM and end the process, because this driver must not continue.

        The process does not wait for the main thread, which may be in a long poll.
        """
        self._fatal_error = self._fatal_error or error
        self._stopping.set()
        _LOG.error("driver stops: %s", error.message)
        self._spark.kill()
        if isinstance(error, DriverLost):
            self._link.goodbye(Failure.of(error))
        os._exit(1)

    def _cancel_remaining(self) -> None:
        """Cancel the statements in flight, and wait for their reports.

        After the grace period of the close, a node would kill the driver: end a little earlier.
        """
        with self._lock:
            remaining = list(self._executions)
        for statement_id in remaining:
            self._cancel(statement_id)
        grace_seconds = self._link.bootstrap.close_grace_seconds
        exit_seconds = min(_EXIT_SHARE * grace_seconds, _LONGEST_EXIT_SECONDS)
        self._supervisor.stop_all(grace_seconds - exit_seconds)
        wait(self._futures, grace_seconds - exit_seconds)
        self._executed.close(_LAST_REPORT_SHARE * exit_seconds)
        for pool in (self._workers, self._reporters):
            pool.shutdown(wait=False, cancel_futures=True)
