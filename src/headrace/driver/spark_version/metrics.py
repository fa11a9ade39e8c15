"""What Spark counts for a statement: its progress, its plan and stages, and the rows written.

The numbers come from Spark's AppStatusStore, which exists with or without the UI. The job tag of a
statement, which is its id, leads to its jobs. The number of active tasks comes from the task
scheduler instead: the store learns of a task that starts within 100 ms of another change only by
the executor's next heartbeat.
"""

from __future__ import annotations

import contextlib
import json
import logging
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pydantic import ValidationError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.spark_version.bridge import Py4JBridge, compile_java, plan_class_name
from headrace.model.execution import (
    MAX_METRICS,
    MAX_OPERATORS,
    MAX_STAGES,
    SparkOperator,
    SparkStage,
    StatementExecution,
)
from headrace.model.statement import Progress
from headrace.model.text import hide_secrets

_LOG = logging.getLogger("headrace.progress")
_LISTENER_BUS_MILLIS = 500
"""Longest time to wait for the events of tasks that have ended."""
_LAST_EVENTS_MILLIS = 100
"""Longest time to wait for the events that follow the end of the last task, such as that of the
end of the query."""


class ProgressReader:
    """Reads the progress of statements from the application. Every call may raise Py4JError.

    Each call of a Java object is a round trip, and so is the release of each object that a call
    returns. A Java class therefore adds up the numbers.
    """

    def __init__(self, context: SparkContext) -> None:
        self._jvm: Any = context._jvm  # noqa: SLF001 - PySpark's StatusTracker does not offer tags
        self._scala_context = context._jsc.sc()  # noqa: SLF001 - as above
        self._tracker = self._scala_context.statusTracker()
        self._listener_bus = self._scala_context.listenerBus()
        self._metrics: Any | None = None

    def compile(self) -> None:
        """Compile the Java class now, not for the first statement with a job."""
        self._metrics = find_metrics(self._jvm)

    def find_jobs(self, tag: str) -> Any:
        """Return the ids of the jobs with a tag, as a Java array."""
        return self._tracker.getJobIdsForTag(tag)

    def read(self, tag: str) -> Progress | None:
        """Return the sums over all jobs with a tag; None before the first job."""
        return self._read(tag, ended_millis=0)

    def read_final(self, tag: str) -> Progress | None:
        """Return the progress when no job with the tag runs any more, like `read`.

        The store learns of the last tasks through the listener bus, which delivers its events with
        a delay.
        """
        if self._metrics is None:
            # Without a job, nothing is compiled. A bus that other statements keep busy raises an
            # error.
            with contextlib.suppress(Py4JJavaError):
                self._listener_bus.waitUntilEmpty(_LISTENER_BUS_MILLIS)
        return self._read(tag, ended_millis=_LISTENER_BUS_MILLIS)

    def _read(self, tag: str, *, ended_millis: int) -> Progress | None:
        if self._metrics is None and len(self.find_jobs(tag)):
            self.compile()
        if self._metrics is None:
            return None
        text = self._metrics.readProgress(self._scala_context, tag, ended_millis)
        if text is None:
            return None
        return Progress(**{name: max(0, value) for name, value in json.loads(text).items()})


class ExecutionReader:
    """Reads the plans and stages of statements that have ended. Calls may raise Py4JError.

    One call of a Java class reads all of a statement.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def compile(self) -> None:
        """Compile the Java class now, not after the first statement with a job."""
        _find_class(self._jvm.root, "StatementExecution", "plan and stages")

    def read(self, tag: str) -> StatementExecution | None:
        """Return the plan and the stages of the jobs with a tag; None if there is no job.

        Spark has replaced the secrets that it recognises, and this method replaces those that
        Headrace recognises.
        """
        jvm = self._jvm
        reader = _find_class(jvm.root, "StatementExecution", "plan and stages")
        if reader is None:
            return None
        text = reader.read(
            jvm.context,
            self._plans,
            tag,
            _LAST_EVENTS_MILLIS,
            MAX_STAGES,
            MAX_OPERATORS,
            MAX_METRICS,
        )
        if text is None:
            return None
        try:
            return _parse_execution(json.loads(text))
        except (ValidationError, ValueError, LookupError) as error:
            _LOG.warning("statement %s: no plan and stages: %s", tag, error)
            return None

    @cached_property
    def _jvm(self) -> Py4JBridge:
        return Py4JBridge(self._session)

    @cached_property
    def _plans(self) -> Any:
        """The store of plans, which the sessions of an application share."""
        return self._jvm.session.sharedState().statusStore()


def _parse_execution(content: dict[str, Any]) -> StatementExecution:
    plan = content["plan"]
    return StatementExecution(
        plan=None if plan is None else hide_secrets(plan),
        operators=[_parse_operator(operator) for operator in content["operators"]],
        operators_omitted=content["operators_omitted"],
        stages=[_parse_stage(stage) for stage in content["stages"]],
        stages_omitted=content["stages_omitted"],
        tasks_active=content["tasks_active"],
    )


def _parse_operator(content: dict[str, Any]) -> SparkOperator:
    return SparkOperator(**content | {"name": hide_secrets(content["name"])})


def _parse_stage(content: dict[str, Any]) -> SparkStage:
    failure = content["failure"]
    values = content | {
        "name": hide_secrets(content["name"]),
        "failure": None if failure is None else hide_secrets(failure),
        "started_at": _to_instant(content.get("started_millis")),
        "ended_at": _to_instant(content.get("ended_millis")),
        "run_seconds": max(0, content["run_millis"]) / 1000,
        "median_task_seconds": _to_seconds(content.get("median_task_millis")),
        "longest_task_seconds": _to_seconds(content.get("longest_task_millis")),
    }
    fields = {name: values[name] for name in SparkStage.model_fields}
    # Spark counts -1 for a value that it has not received.
    return SparkStage(
        **{name: max(0, each) if type(each) is int else each for name, each in fields.items()}
    )


def _to_seconds(millis: int | None) -> float | None:
    return None if millis is None else millis / 1000


def _to_instant(millis: int | None) -> datetime | None:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)


def find_metrics(root: Any) -> Any | None:
    """Return the Java object that reads what Spark counts for a statement.

    Return None if it does not compile, for example with a Spark of a vendor.

    Args:
        root: The JVM, as PySpark returns it.
    """
    return _find_class(root, "StatementMetrics", "progress and written rows")


@lru_cache
def _find_class(root: Any, name: str, purpose: str) -> Any | None:
    """Return an object of a Java class; None, with a warning, if it does not compile."""
    try:
        return compile_java(root, name)
    except Py4JError as error:
        _LOG.warning("statements have no %s: %s", purpose, error)
        return None


_V2_WRITES = {"AppendDataExec", "OverwriteByExpressionExec", "OverwritePartitionsDynamicExec"}
"""Class names of plans that count their rows themselves."""
_CATALOG_WRITES = {
    "AppendDataExecV1",
    "OverwriteByExpressionExecV1",
    "CreateTableAsSelectExec",
    "AtomicCreateTableAsSelectExec",
    "ReplaceTableAsSelectExec",
    "AtomicReplaceTableAsSelectExec",
}
"""Class names of plans whose catalog runs the write, possibly without any metric in Spark."""


def count_written_rows(frame: DataFrame, jobs: Any, progress: Progress | None) -> int | None:
    """Return the number of rows that a statement has written.

    Call this function when Spark's listener bus has delivered the events of the statement.

    Args:
        frame: The DataFrame of the statement, which has run.
        jobs: Ids of the Spark jobs of the statement, as a Java array.
        progress: The final progress of the statement. Its tasks count the rows if a catalog runs
            the write; rows of failed tasks are included.

    Returns:
        None if the statement writes no rows, or if Spark does not count them.

    Raises Py4JError.
    """
    command = _find_command(frame)
    if command is None:
        return None
    if plan_class_name(command) in _V2_WRITES:
        written = command.commitProgress()
        return int(written.get().numOutputRows()) if written.isDefined() else None
    jvm = Py4JBridge(frame.sparkSession)
    store = jvm.session.sharedState().statusStore()
    metrics = find_metrics(jvm.root)
    rows = -1 if metrics is None else int(metrics.countWrittenRows(store, jobs))
    if rows >= 0:
        return rows
    if progress is not None and plan_class_name(command) in _CATALOG_WRITES:
        return progress.rows_written
    return None


def _find_command(frame: DataFrame) -> Any | None:
    """Return the physical plan of the command that a DataFrame has run, or None for a query."""
    result: Any = frame._jdf.queryExecution().commandExecuted()  # noqa: SLF001 - PySpark has no public access to a plan
    if plan_class_name(result) != "CommandResult":
        return None
    command = result.commandPhysicalPlan()
    is_adaptive = plan_class_name(command) == "AdaptiveSparkPlanExec"
    return command.executedPlan() if is_adaptive else command
