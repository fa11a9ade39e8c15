"""Drivers that run jobs without Spark: checkpoints, savepoints and sinks are numbers in memory.

A query commits one batch when it starts, and one more with each `advance`. A sink skips a batch
that its log has already, as Spark's sinks do: `skipped` shows rows that would be lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx
from tests.support.auto_reply import AutoReplyLauncher
from tests.support.made_results import inline_result
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.failure import Failure
from headrace.model.job import PlanSummary, SavepointContent
from headrace.model.job_messages import (
    CheckedJob,
    CheckedJobs,
    CheckJobs,
    CompareColumns,
    ComparedColumns,
    DeleteStates,
    JobOutcome,
    JobProblem,
    JobTask,
    JobToCheck,
    RestoreSavepoint,
    SavepointTaken,
    TakeSavepoint,
    TaskDone,
    WriteManifests,
)
from headrace.model.lifecycle import StatementState, StreamState
from headrace.model.messages import Assignment
from headrace.model.stream_query import DesiredQuery, QueryProgress, QueryReport, Wanted

HOLD = "hold the session"
"""Text of a statement that does not end."""


class SimulatedJobs(AutoReplyLauncher):
    """A launcher whose drivers carry out the tasks of deployments, and run queries."""

    def __init__(self) -> None:
        super().__init__(self._carry_out)
        self.checkpoints: dict[str, int] = {}
        """Last committed batch by checkpoint of a query."""
        self.savepoints: dict[str, dict[str, int]] = {}
        """Last committed batch by directory of a query, for each place."""
        self.manifests: dict[str, str] = {}
        self.logs: dict[str, int] = {}
        """Last batch of each sink, by path."""
        self.skipped: list[tuple[str, int]] = []
        """Path and number of each batch that a sink has skipped, although it ran once only."""
        self.problems: list[JobProblem] = []
        """What the check of each job finds."""
        self.comparisons: list[CompareColumns] = []
        """The tasks that compared columns."""
        self.compared = ComparedColumns()
        """What each comparison finds."""
        self.refused: set[str] = set()
        """Kinds of tasks that fail."""
        self.fail: Callable[[DesiredQuery], Failure | None] = lambda _query: None
        """Returns why a query fails after its first batch; None: it runs."""
        self.stops_in_batches = False
        """Whether the savepoint of a job plans one batch more than it has committed."""
        self.holds_batches = False
        """Whether queries that start commit no batch."""
        self.reports_batches = True
        """Whether the node hears of committed batches. A driver that is lost reports none."""
        self.checks_rows = True
        """Whether the drivers know the expectations of streams."""
        self.measure: Callable[[int], list[QueryProgress]] = lambda _batch: []
        """Returns what a query reports with the number of its last batch."""
        self._broken: dict[str, Failure] = {}
        self._finished: set[str] = set()
        self._lock = threading.Lock()
        self._running: dict[str, DesiredQuery] = {}

    def advance(self) -> None:
        """Commit a batch in every query that runs."""
        with self._lock:
            for query in self._running.values():
                self._commit(query)

    def is_running(self, query_id: str) -> bool:
        """Return whether a query runs: the next batches are also its own."""
        with self._lock:
            return query_id in self._running

    def break_query(self, name: str, failure: Failure) -> None:
        """Let a query that runs fail for good."""
        with self._lock:
            self._broken[name] = failure

    def finish_query(self, name: str) -> None:
        """Let a query that runs end by itself, after its last batch."""
        with self._lock:
            self._finished.add(name)

    def _commit(self, query: DesiredQuery) -> int:
        checkpoint, path = query.spec.checkpoint or "", query.spec.path or ""
        batch = self.checkpoints.get(checkpoint, -1) + 1
        if path and self.logs.get(path, -1) >= batch:
            self.skipped.append((path, batch))
        elif path:
            self.logs[path] = batch
        self.checkpoints[checkpoint] = batch
        return batch

    def _loop(self, driver: ScriptedDriver) -> None:
        driver.hello()
        generation, own, held = 0, dict[str, QueryReport](), list[str]()
        while not self._stopping.is_set():
            orders = driver.poll(wait=0.1, streams_generation=generation, in_flight=held)
            if orders.close:
                driver.goodbye()
                return
            if orders.assignment is not None:
                statement_id = orders.assignment.statement_id
                driver.report_start(statement_id)
                if HOLD in orders.assignment.text:
                    held.append(statement_id)
                else:
                    driver.report_end(statement_id, **self._reply(orders.assignment))
            if orders.streams is not None:
                generation = orders.streams.generation
                own = {
                    each.id: self._act(each, own.get(each.id)) for each in orders.streams.queries
                }
            self._report(driver, own)

    def _report(self, driver: ScriptedDriver, own: dict[str, QueryReport]) -> None:
        with self._lock:
            for query_id, report in own.items():
                if query_id in self._running:
                    checkpoint = self._running[query_id].spec.checkpoint or ""
                    batch = self.checkpoints.get(checkpoint)
                    if not self.reports_batches:
                        batch = report.last_batch
                    progress = [] if batch is None else self.measure(batch)
                    news = {"last_batch": batch, "progress": progress}
                    own[query_id] = report.model_copy(update=news)
                    name = self._running[query_id].name
                    failure = self._broken.pop(name, None)
                    if name in self._finished:
                        self._finished.remove(name)
                        stopped = {"state": StreamState.STOPPED}
                        own[query_id] = own[query_id].model_copy(update=stopped)
                        del self._running[query_id]
                    if failure is not None:
                        failed = {"state": StreamState.FAILED, "error": failure}
                        own[query_id] = own[query_id].model_copy(update=failed)
                        del self._running[query_id]
        try:
            driver.renew(streams=len(own), queries=list(own.values()))
        except httpx.HTTPStatusError:
            # The session has ended.
            return

    def _act(self, query: DesiredQuery, before: QueryReport | None) -> QueryReport:
        facts: dict[str, Any] = {"generation": query.generation, "run_id": "run"}
        with self._lock:
            if query.wanted is not Wanted.RUNNING:
                self._running.pop(query.id, None)
                batch = None if before is None else before.last_batch
                return QueryReport(
                    id=query.id, state=StreamState.STOPPED, last_batch=batch, **facts
                )
            if before is not None:
                return before.model_copy(update={"generation": query.generation})
            batch = None if self.holds_batches else self._commit(query)
            failure = self.fail(query)
            if failure is None:
                self._running[query.id] = query
            state = StreamState.RUNNING if failure is None else StreamState.FAILED
            batch = batch if self.reports_batches else None
            return QueryReport(id=query.id, state=state, last_batch=batch, error=failure, **facts)

    def _carry_out(self, assignment: Assignment) -> dict[str, Any]:
        task = assignment.task
        success = {
            "state": StatementState.SUCCESS,
            "result": inline_result([("x", "integer")], [[1]]),
        }
        if task is None:
            return success
        if task.kind in self.refused:
            failure = Failure(code="refused", message=f"The test refuses {task.kind}.")
            return {"state": StatementState.FAILED, "failure": failure}
        with self._lock:
            return success | {"task_outcome": self._run_task(task)}

    def _run_task(self, task: JobTask) -> JobOutcome:
        if isinstance(task, CheckJobs):
            return CheckedJobs(jobs=[self._check(job) for job in task.jobs])
        if isinstance(task, CompareColumns):
            self.comparisons.append(task)
            return self.compared
        if isinstance(task, TakeSavepoint):
            return SavepointTaken(content=self._copy(task))
        if isinstance(task, RestoreSavepoint):
            for directory, batch in self.savepoints[task.savepoint].items():
                self.checkpoints[_join(task.checkpoint, directory)] = batch
        elif isinstance(task, WriteManifests):
            self.manifests |= task.texts
            _remove(self.manifests, task.deleted)
        elif isinstance(task, DeleteStates):
            _remove(self.savepoints, task.directories)
            _remove(self.checkpoints, task.directories)
        return TaskDone()

    def _check(self, job: JobToCheck) -> CheckedJob:
        summaries = {}
        for query in job.queries:
            rows = query.spec.rows
            if rows is not None and rows.code is not None:
                # Code stands for a batch frame, whose plan a driver does not summarize.
                continue
            sql = "" if rows is None else rows.sql or ""
            operators = ["count"] if "count" in sql else []
            summaries[query.name] = PlanSummary(
                is_streaming=True, sources=["rate"], operators=operators
            )
        directories = [query.directory for query in job.queries]
        found = job.checkpoint is not None and all(
            _join(job.checkpoint, directory) in self.checkpoints for directory in directories
        )
        savepoint = next((place for place in job.savepoints if place in self.savepoints), None)
        return CheckedJob(
            name=job.name,
            problems=self.problems,
            checks_rows=self.checks_rows,
            summaries=summaries,
            found_checkpoint=found,
            found_savepoint=savepoint,
        )

    def _copy(self, task: TakeSavepoint) -> SavepointContent:
        paths = {query: _join(task.checkpoint, query) for query in task.queries}
        batches = {
            query: self.checkpoints[path]
            for query, path in paths.items()
            if path in self.checkpoints
        }
        if batches:
            self.savepoints[task.savepoint] = batches
        planned = {query: batch + self.stops_in_batches for query, batch in batches.items()}
        return SavepointContent(
            files=len(batches),
            bytes=len(batches),
            checksum="c",
            spark_version="4.1.3",
            is_clean=not self.stops_in_batches,
            last_batches=batches,
            planned_batches=planned,
        )


def _remove(entries: dict[str, Any], keys: list[str]) -> None:
    for key in keys:
        entries.pop(key, None)


def _join(directory: str, query: str) -> str:
    return f"{directory}/{query}" if query else directory
