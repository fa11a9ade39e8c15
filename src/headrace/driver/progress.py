"""Reports what Spark counts: the progress of statements, and their plans and stages at the end."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JError

from headrace.driver.link import LinkRefused, NodeLink
from headrace.driver.spark_version.metrics import ExecutionReader, ProgressReader
from headrace.errors import HeadraceError
from headrace.model.execution import SparkStageState, StatementExecution
from headrace.model.messages import MAX_EXECUTIONS, MAX_EXECUTIONS_BODY
from headrace.model.statement import Progress

_LOG = logging.getLogger("headrace.progress")
_INTERVAL_SECONDS = 1.0
_PAUSE_SECONDS = 0.5
"""Time between two reports of executions, which share a transaction of the store."""
_TASKS_SECONDS = 30.0
"""Time for which a report waits until no task and no stage of the statement is active."""
_LONGEST_DELAY = 4.0
"""Longest time between two looks at such a statement."""
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
        self._put_off: dict[str, _Delay] = {}
        """Statements with tasks that are to end: their reports wait for that."""
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
                self._forget_due()
            except (HeadraceError, Py4JError, OSError) as error:
                # The lease renewal detects a lost lease and a dead JVM, and ends the driver.
                _LOG.info("plans and stages were not reported: %s", error)
                self._forget_due()
            except Exception:  # noqa: BLE001 - later statements have their reports
                _LOG.exception("plans and stages were not reported")
                self._forget_due()
            self._pause_until(began + _PAUSE_SECONDS)

    def _take(self) -> list[str]:
        """Wait for statements, and return the first of them; none when the thread must end."""
        with self._changed:
            while not (taken := self._list_due()) and not self._is_closing:
                again = [delay.again_at for delay in self._put_off.values()]
                self._changed.wait(max(0.0, min(again) - time.monotonic()) if again else None)
            return taken

    def _list_due(self) -> list[str]:
        """Return the statements to read now: those put off first, then those that have ended."""
        now = time.monotonic()
        due = [
            statement_id
            for statement_id, delay in self._put_off.items()
            if delay.again_at <= now or self._is_closing
        ][:MAX_EXECUTIONS]
        count = min(len(self._waiting), MAX_EXECUTIONS - len(due))
        return due + [self._waiting.popleft() for _ in range(count)]

    def _pause_until(self, end: float) -> None:
        """Let statements gather for the next report, unless there are enough or the driver ends."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closing or len(self._waiting) >= MAX_EXECUTIONS,
                max(0.0, end - time.monotonic()),
            )

    def _report(self, statement_ids: list[str]) -> None:
        executions: dict[str, StatementExecution] = {}
        size = 0
        for statement_id in statement_ids:
            execution = self._reader.read(statement_id)
            if self._has_to_wait(statement_id, execution) or execution is None:
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

    def _has_to_wait(self, statement_id: str, execution: StatementExecution | None) -> bool:
        """Put a statement off whose tasks still run after a cancel: it has one report.

        It also waits for stages whose end Spark's listeners have not reported. Return whether it
        was put off.
        """
        now = time.monotonic()
        with self._changed:
            delay = self._put_off.pop(statement_id, None)
            is_late = delay is not None and now - delay.began_at > _TASKS_SECONDS
            is_full = len(self._put_off) >= MAX_EXECUTIONS
            is_active = execution is not None and _is_active(execution)
            if not is_active or is_late or is_full or self._is_closing:
                return False
            began_at = now if delay is None else delay.began_at
            # To read a statement takes the JVM some time. Most tasks end at once.
            pause = min(max(now - began_at, _PAUSE_SECONDS), _LONGEST_DELAY)
            self._put_off[statement_id] = _Delay(began_at, now + pause)
            return True

    def _forget_due(self) -> None:
        """Give up the reports of statements that could not be read."""
        now = time.monotonic()
        with self._changed:
            self._put_off = {
                statement_id: delay
                for statement_id, delay in self._put_off.items()
                if delay.again_at > now
            }


def _is_active(execution: StatementExecution) -> bool:
    has_stage = any(stage.state is SparkStageState.ACTIVE for stage in execution.stages)
    return has_stage or bool(execution.tasks_active)


@dataclass(frozen=True, slots=True)
class _Delay:
    """A report that waits for the end of tasks or stages, in times of the monotonic clock."""

    began_at: float
    again_at: float
    """When the statement is read again."""
