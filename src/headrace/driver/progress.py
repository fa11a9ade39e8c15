"""Progress of statements: once a second while they run, and once after their end.

The numbers come from Spark's AppStatusStore, which exists with or without the UI. The job tag of a
statement, which is its id, leads to its jobs. The number of active tasks comes from the task
scheduler instead: the store learns of a task that starts within 100 ms of another change only by
the executor's next heartbeat.
"""

from __future__ import annotations

import contextlib
import json
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
    """Reads the progress of statements from the application. Every call may raise Py4JError.

    Each call of a Java object is a round trip, and so is the release of each object that a call
    returns. Sequences therefore come as text.
    """

    def __init__(self, context: SparkContext) -> None:
        scala_context = context._jsc.sc()  # noqa: SLF001 - PySpark's StatusTracker does not offer tags
        self._tracker = scala_context.statusTracker()
        self._store = scala_context.statusStore()
        self._scheduler = scala_context.taskScheduler()
        self._listener_bus = scala_context.listenerBus()
        self._arrays = context._jvm.java.util.Arrays  # type: ignore[union-attr]  # noqa: SLF001 - as above

    def read(self, tag: str) -> Progress | None:
        """Return the sums over all jobs with a tag; None before the first job."""
        return self._read(tag, self._count_active_tasks)

    def list_jobs(self, tag: str) -> list[int]:
        """Return the ids of the jobs with a tag."""
        text = self._arrays.toString(self._tracker.getJobIdsForTag(tag))
        jobs: list[int] = json.loads(text)
        return jobs

    def read_final(self, tag: str) -> Progress | None:
        """Return the progress when no job with the tag runs any more, like `read`.

        The store learns of the last tasks through the listener bus, which delivers its events with
        a delay.
        """
        # A bus that other statements keep busy raises a timeout. The numbers are then too low.
        with contextlib.suppress(Py4JJavaError):
            self._listener_bus.waitUntilEmpty(_LISTENER_BUS_MILLIS)
        return self._read(tag, lambda _id, _stage: 0)

    def _read(self, tag: str, count_active: Callable[[int, Any], int]) -> Progress | None:
        sums: Counter[str] = Counter()
        for job_id in self.list_jobs(tag):
            sums["jobs"] += 1
            for stage_id in _add_job(self._store.job(job_id), sums):
                try:
                    stage = self._store.lastStageAttempt(stage_id)
                except Py4JError:
                    continue  # The stage has not started.
                sums["tasks_active"] += count_active(stage_id, stage)
                _add_stage(stage, sums)
        if not sums["jobs"]:
            return None
        return Progress(**{name: max(0, sums[name]) for name in Progress.model_fields})

    def _count_active_tasks(self, stage_id: int, stage: Any) -> int:
        tasks = self._scheduler.taskSetManagerForAttempt(stage_id, stage.attemptId())
        return int(tasks.get().runningTasks()) if tasks.isDefined() else 0


def _add_job(job: Any, sums: Counter[str]) -> list[int]:
    """Add the counts of a job to the sums, and return the ids of its stages."""
    skipped_stages, skipped_tasks = job.numSkippedStages(), job.numSkippedTasks()
    sums["stages_done"] += job.numCompletedStages() + skipped_stages
    sums["tasks_done"] += job.numCompletedTasks() + skipped_tasks
    sums["tasks_total"] += job.numTasks()
    sums["tasks_failed"] += job.numFailedTasks()
    stages: list[int] = json.loads(job.stageIds().mkString("[", ",", "]"))
    sums["stages_total"] += len(stages)
    return stages


def _add_stage(stage: Any, sums: Counter[str]) -> None:
    sums["rows_read"] += stage.inputRecords()
    sums["bytes_read"] += stage.inputBytes()
    sums["rows_written"] += stage.outputRecords()
    sums["bytes_written"] += stage.outputBytes()
