"""How far the running statements are, told once a second.

Spark's own store of applications' statuses says it; it is kept with or without the UI. The jobs of
a statement are found by their tag, which is its id. How many tasks are at work the scheduler says:
what begins within 100 ms of another change is not in the store before an executor's next heartbeat.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError

from headrace.driver.link import Link
from headrace.driver.spark import Spark
from headrace.errors import HeadraceError
from headrace.model.progress import Progress

_LOG = logging.getLogger("headrace.progress")
_SECONDS = 1.0


class ProgressReporter:
    """One thread that tells what has changed. What goes wrong with it ends no statement."""

    def __init__(self, link: Link, spark: Spark, running: Callable[[], list[str]]) -> None:
        self._link = link
        self._spark = spark
        self._running = running
        self._told: dict[str, Progress] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tells nothing more."""
        self._stopping.set()

    def _run(self) -> None:
        seen: set[str] = set()
        while not self._stopping.wait(_SECONDS):
            running = self._running()
            # What has begun since the last look may be over before anybody reads of it.
            lasting = [one for one in running if one in seen]
            seen = set(running)
            try:
                self._tell(lasting)
            except (HeadraceError, Py4JError, OSError) as error:
                # A lost lease and a dead JVM are found out, and acted on, by the lease's renewal.
                _LOG.info("no progress: %s", error)

    def _tell(self, running: list[str]) -> None:
        found = {one: read_progress(self._spark, one) for one in running}
        new = {
            one: progress
            for one, progress in found.items()
            if progress is not None and progress != self._told.get(one)
        }
        self._told = {one: self._told[one] for one in running if one in self._told} | new
        if new:
            self._link.advanced(new)


def read_progress(spark: Spark, tag: str) -> Progress | None:
    """The sums over the jobs with a tag; None before the first. Raises Py4JError."""
    context = spark.context._jsc.sc()  # noqa: SLF001 - PySpark's tracker knows no tags
    store, scheduler = context.statusStore(), context.taskScheduler()
    sums: Counter[str] = Counter()
    for job in context.statusTracker().getJobIdsForTag(tag):
        sums["jobs"] += 1
        _add_job(store.job(job), store, scheduler, sums)
    if not sums["jobs"]:
        return None
    return Progress(**{name: sums[name] for name in Progress.model_fields})


def _add_job(job: Any, store: Any, scheduler: Any, sums: Counter[str]) -> None:
    skipped_stages, skipped_tasks = job.numSkippedStages(), job.numSkippedTasks()
    sums["stages_done"] += job.numCompletedStages() + skipped_stages
    sums["tasks_done"] += job.numCompletedTasks() + skipped_tasks
    sums["tasks_total"] += job.numTasks()
    sums["tasks_failed"] += job.numFailedTasks()
    stages = job.stageIds()
    sums["stages_total"] += stages.size()
    for at in range(stages.size()):
        _add_stage(store, scheduler, stages.apply(at), sums)


def _add_stage(store: Any, scheduler: Any, stage: int, sums: Counter[str]) -> None:
    try:
        data = store.lastStageAttempt(stage)
    except Py4JError:
        return  # it has not begun
    at_work = scheduler.taskSetManagerForAttempt(stage, data.attemptId())
    if at_work.isDefined():
        sums["tasks_active"] += at_work.get().runningTasks()
    sums["rows_read"] += data.inputRecords()
    sums["bytes_read"] += data.inputBytes()
    sums["rows_written"] += data.outputRecords()
    sums["bytes_written"] += data.outputBytes()
