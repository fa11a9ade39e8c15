"""What a driver does all day: poll for orders, run each statement in a thread, renew the lease.

Threads are used again: a new one has a connection and a thread of the JVM to make, which takes
longer than a small statement's planning.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait

from headrace.driver.ctas import recover
from headrace.driver.execute import Execution
from headrace.driver.hooks import report_ended_statements
from headrace.driver.link import Link
from headrace.driver.progress import ProgressReporter
from headrace.driver.spark import Spark
from headrace.driver.warm_up import warm_up
from headrace.errors import DriverLost, HeadraceError
from headrace.model.failure import Failure
from headrace.model.messages import Assignment

_LOG = logging.getLogger("headrace.driver")
_CLOSE_SECONDS = 10.0
_BRIEF_SECONDS = 0.1
"""A statement that ends sooner is told of once: its beginning goes with its end."""
_THREADS = 64


class Loop:
    """Serves one session until it is closed."""

    def __init__(self, link: Link, spark: Spark) -> None:
        self._link = link
        self._spark = spark
        self._executions: dict[str, Execution] = {}
        self._futures: set[Future[None]] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._broken: HeadraceError | None = None
        self._workers = ThreadPoolExecutor(_THREADS, thread_name_prefix="headrace-run")
        self._reporters = ThreadPoolExecutor(_THREADS, thread_name_prefix="headrace-report")

    def stop(self) -> None:
        """Leave at the next occasion: SIGTERM."""
        self._stopping.set()

    def run(self) -> None:
        """Polls until told to close.

        Raises LeaseLost, Orphaned, Refused, and DriverLost when the JVM has died.
        """
        left = self._link.restore()
        lost = self._spark.state.restore(left.snapshot) if left.snapshot is not None else []
        recover(self._spark.session, self._link)
        report_ended_statements(left.pending_hook_calls, self._link.bootstrap.session_id)
        told = [one.statement_id for one in left.pending_hook_calls]
        self._link.hello(self._spark.describe(os.getpid(), lost=lost, told=told))
        renewal = threading.Thread(target=self._renew, name="headrace-renew", daemon=True)
        renewal.start()
        reports = ProgressReporter(self._link, self._spark, lambda: self._in_hand()[0])
        reports.start()
        if self._link.bootstrap.warm:
            # Beside the first poll: somebody may take it at any time.
            self._workers.submit(warm_up, self._spark, self._link.bootstrap)
        try:
            self._serve()
        finally:
            reports.stop()
        self._check()
        self._link.goodbye()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            orders = self._link.poll(*self._in_hand())
            self._check()
            for statement_id in orders.cancel:
                self._cancel(statement_id)
            if (
                orders.assignment is not None
                and orders.assignment.statement_id not in self._executions
            ):
                self._start(orders.assignment)
            if orders.close:
                self._stopping.set()
        self._finish()

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _in_hand(self) -> tuple[list[str], list[str]]:
        with self._lock:
            cancels_received = [key for key, one in self._executions.items() if one.cancelling]
            return list(self._executions), cancels_received

    def _start(self, assignment: Assignment) -> None:
        execution = Execution(self._spark, self._link, assignment)
        with self._lock:
            self._executions[assignment.statement_id] = execution
        self._futures = {one for one in self._futures if not one.done()}
        self._futures.add(self._workers.submit(self._execute, execution))
        # Beside the execution, never before it: its time is the user's.
        self._reporters.submit(self._started, execution)

    def _started(self, execution: Execution) -> None:
        try:
            if not execution.ends_within(_BRIEF_SECONDS):
                self._link.started(execution.assignment.statement_id)
        except HeadraceError as error:
            self._break(error)

    def _execute(self, execution: Execution) -> None:
        statement_id = execution.assignment.statement_id
        try:
            ended = execution.run()
            self._link.ended(ended)
        except HeadraceError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001 - who cannot report an end must not go on
            _LOG.exception("statement %s: its end cannot be reported", statement_id)
            self._break(DriverLost(f"The driver could not report how it ended: {error}"))
        finally:
            # In hand until acknowledged: the node hands out again what a driver does not have.
            with self._lock:
                self._executions.pop(statement_id)

    def _cancel(self, statement_id: str) -> None:
        with self._lock:
            execution = self._executions.get(statement_id)
        if execution is not None:
            execution.cancel()

    def _renew(self) -> None:
        while not self._stopping.wait(self._link.bootstrap.renew_seconds):
            try:
                if not self._spark.alive():
                    raise DriverLost("The JVM of the driver died.")
                self._link.renew(self._spark.streams())
            except HeadraceError as error:
                self._break(error)
                return

    def _break(self, error: HeadraceError) -> None:
        """This driver may not go on. The JVM dies here and now: a long poll may still be open."""
        self._broken = self._broken or error
        self._stopping.set()
        _LOG.error("stopping: %s", error.message)
        self._spark.kill()
        if isinstance(error, DriverLost):
            self._link.goodbye(Failure.of(error))
        os._exit(1)

    def _finish(self) -> None:
        """Cancels what still runs, and waits a while for it to report."""
        with self._lock:
            left = list(self._executions)
        for statement_id in left:
            self._cancel(statement_id)
        wait(self._futures, _CLOSE_SECONDS)
        for pool in (self._workers, self._reporters):
            pool.shutdown(wait=False, cancel_futures=True)
