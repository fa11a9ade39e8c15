"""Reports what Spark counts: the progress of statements, and their plans and stages at the end."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable

from py4j.protocol import Py4JError

from headrace.driver.link import LinkRefused, NodeLink
from headrace.driver.spark_version.metrics import ExecutionReader, ProgressReader
from headrace.errors import HeadraceError
from headrace.model.execution import StatementExecution
from headrace.model.messages import MAX_EXECUTIONS, MAX_EXECUTIONS_BODY
from headrace.model.statement import Progress

_LOG = logging.getLogger("headrace.progress")
_INTERVAL_SECONDS = 1.0
_PAUSE_SECONDS = 0.5
"""Time between two reports of executions, which share a transaction of the store."""
_TASKS_SECONDS = 30.0
"""Time for which a report waits until no task of the statement runs any more."""
_MAX_WAITING = 500
"""Largest number of statements whose executions wait to be read. Spark keeps 1,000 jobs."""


class ProgressReporter:
    """A thread that reports changed progress. An error in this thread ends no statement."""

    def __init__(
        self, link: NodeLink, reader: ProgressReader, list_in_flight: Callable[[], list[str]]
    ) -> None:
        self._link = link
        self._reader = reader
        self._list_in_flight = list_in_flight
        self._reported: dict[str, Progress] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-progress", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Send no further report. Do not wait for a report that is being sent."""
        self._stopping.set()

    def _run(self) -> None:
        previous: set[str] = set()
        while not self._stopping.wait(_INTERVAL_SECONDS):
            in_flight = self._list_in_flight()
            # Skip statements younger than one interval: most of them end before the report arrives.
            lasting = [statement_id for statement_id in in_flight if statement_id in previous]
            previous = set(in_flight)
            try:
                self._report_changes(lasting)
            except (HeadraceError, Py4JError, OSError) as error:
                # The lease renewal detects a lost lease and a dead JVM, and ends the driver.
                _LOG.info("progress was not reported: %s", error)

    def _report_changes(self, statement_ids: list[str]) -> None:
        changed: dict[str, Progress] = {}
        for statement_id in statement_ids:
            progress = self._reader.read(statement_id)
            if progress is not None and progress != self._reported.get(statement_id):
                changed[statement_id] = progress
        self._reported = {
            statement_id: progress
            for statement_id, progress in self._reported.items()
            if statement_id in statement_ids
        } | changed
        if changed:
            self._link.report_progress(changed)


class ExecutionReporter:
    """A thread that reports the plans and stages of statements that have ended.

    The end of a statement does not wait for it. An error in this thread ends no statement: its plan
    and its stages are missing then.
    """

    def __init__(self, link: NodeLink, reader: ExecutionReader) -> None:
        self._link = link
        self._reader = reader
        self._changed = threading.Condition()
        self._waiting = deque[str](maxlen=_MAX_WAITING)
        self._until: dict[str, float] = {}
        """Statements with tasks that are to end, and until when their reports wait for that."""
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def add(self, statement_id: str) -> None:
        """Report the execution of a statement whose end a node has acknowledged."""
        with self._changed:
            self._waiting.append(statement_id)
            self._changed.notify()
            if self._thread is None:
                # A driver whose statements start no job has no such thread.
                self._thread = threading.Thread(
                    target=self._run, name="headrace-executions", daemon=True
                )
                self._thread.start()

    def close(self, seconds: float) -> None:
        """Report what waits, for at most `seconds`, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while statement_ids := self._take():
            began = time.monotonic()
            try:
                self._report(statement_ids)
            except LinkRefused as error:
                # A node one version older does not know the call.
                _LOG.info("plans and stages were not accepted: %s", error)
            except (HeadraceError, Py4JError, OSError) as error:
                # The lease renewal detects a lost lease and a dead JVM, and ends the driver.
                _LOG.info("plans and stages were not reported: %s", error)
            except Exception:  # noqa: BLE001 - later statements have their reports
                _LOG.exception("plans and stages were not reported")
            self._pause_until(began + _PAUSE_SECONDS)

    def _take(self) -> list[str]:
        """Wait for statements, and return the first of them; none when the thread must end."""
        with self._changed:
            if not self._waiting:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_EXECUTIONS))]

    def _pause_until(self, end: float) -> None:
        """Let statements gather for the next report, unless there are enough or the driver ends."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closing or len(self._waiting) - len(self._until) >= MAX_EXECUTIONS,
                max(0.0, end - time.monotonic()),
            )

    def _report(self, statement_ids: list[str]) -> None:
        executions: dict[str, StatementExecution] = {}
        size = 0
        for statement_id in statement_ids:
            execution = self._reader.read(statement_id)
            if execution is None or self._has_to_wait(statement_id, execution):
                continue
            # The masks of secrets may make the message longer.
            length = 2 * len(execution.model_dump_json().encode())
            if executions and size + length > MAX_EXECUTIONS_BODY:
                self._link.report_executions(executions)
                executions, size = {}, 0
            executions[statement_id] = execution
            size += length
        if executions:
            self._link.report_executions(executions)

    def _has_to_wait(self, statement_id: str, execution: StatementExecution) -> bool:
        """Put a statement off whose tasks a cancel has not ended yet: it has one report.

        Return whether it was put off.
        """
        with self._changed:
            is_late = time.monotonic() > self._until.get(statement_id, math.inf)
            is_full = len(self._until) >= MAX_EXECUTIONS and statement_id not in self._until
            if execution.tasks_active and not (is_late or is_full or self._is_closing):
                self._until.setdefault(statement_id, time.monotonic() + _TASKS_SECONDS)
                self._waiting.append(statement_id)
                return True
        self._until.pop(statement_id, None)
        return False
