"""Progress of statements: once a second while they run, and once after their end.

The numbers come from Spark's AppStatusStore, which exists with or without the UI. The job tag of a
statement, which is its id, leads to its jobs. The number of active tasks comes from the task
scheduler instead: the store learns of a task that starts within 100 ms of another change only by
the executor's next heartbeat.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from headrace.driver.link import NodeLink
from headrace.errors import HeadraceError
from headrace.model.progress import Progress

_LOG = logging.getLogger("headrace.progress")
_INTERVAL_SECONDS = 1.0
_LISTENER_BUS_MILLIS = 500
"""Longest time to wait for the events of tasks that have ended."""


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


class ProgressReader:
    """Reads the progress of statements from the application. Every call may raise Py4JError."""

    def __init__(self, context: SparkContext) -> None:
        scala_context = context._jsc.sc()  # noqa: SLF001 - PySpark's StatusTracker does not offer tags
        self._tracker = scala_context.statusTracker()
        self._store = scala_context.statusStore()
        self._scheduler = scala_context.taskScheduler()
        self._listener_bus = scala_context.listenerBus()

    def read(self, tag: str) -> Progress | None:
        """Return the sums over all jobs with a tag; None before the first job."""
        sums: Counter[str] = Counter()
        for job in self.list_jobs(tag):
            sums["jobs"] += 1
            _add_job(self._store.job(job), self._store, self._scheduler, sums)
        if not sums["jobs"]:
            return None
        return Progress(**{name: max(0, sums[name]) for name in Progress.model_fields})

    def list_jobs(self, tag: str) -> list[int]:
        """Return the ids of the jobs with a tag."""
        return list(self._tracker.getJobIdsForTag(tag))

    def read_final(self, tag: str) -> Progress | None:
        """Return the progress when no job with the tag runs any more, like `read`.

        The store learns of the last tasks through the listener bus, which delivers its events with
        a delay.
        """
        # A bus that other statements keep busy raises a timeout. The numbers are then too low.
        with contextlib.suppress(Py4JJavaError):
            self._listener_bus.waitUntilEmpty(_LISTENER_BUS_MILLIS)
        return self.read(tag)


def _add_job(job: Any, store: Any, scheduler: Any, sums: Counter[str]) -> None:
    skipped_stages, skipped_tasks = job.numSkippedStages(), job.numSkippedTasks()
    sums["stages_done"] += job.numCompletedStages() + skipped_stages
    sums["tasks_done"] += job.numCompletedTasks() + skipped_tasks
    sums["tasks_total"] += job.numTasks()
    sums["tasks_failed"] += job.numFailedTasks()
    stages = job.stageIds()
    sums["stages_total"] += stages.size()
    for index in range(stages.size()):
        _add_stage(store, scheduler, stages.apply(index), sums)


def _add_stage(store: Any, scheduler: Any, stage: int, sums: Counter[str]) -> None:
    try:
        data = store.lastStageAttempt(stage)
    except Py4JError:
        return  # The stage has not started.
    task_set = scheduler.taskSetManagerForAttempt(stage, data.attemptId())
    if task_set.isDefined():
        sums["tasks_active"] += task_set.get().runningTasks()
    sums["rows_read"] += data.inputRecords()
    sums["bytes_read"] += data.inputBytes()
    sums["rows_written"] += data.outputRecords()
    sums["bytes_written"] += data.outputBytes()
