"""The number of rows that an INSERT or a CTAS has written, from the metrics of its SQL execution.

The plan of a CTAS has no metrics: Spark and Delta run the write as a nested execution. The metrics
of all executions are in Spark's SQLAppStatusStore, which exists with or without the UI.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pyspark.sql import DataFrame

from headrace.driver.py4j_bridge import Py4JBridge
from headrace.model.progress import Progress

_LATEST_EXECUTIONS = 20
"""Number of executions to search, from the latest."""
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
_ROWS_METRIC = "number of output rows"
_WRITE_COMMAND_PREFIX = "Execute "
"""Beginning of the names of commands in Spark's plan graphs. Only writes count output rows."""


def count_written_rows(
    frame: DataFrame, jobs: Collection[int], progress: Progress | None
) -> int | None:
    """Return the number of rows that a statement has written.

    Call this function when Spark's listener bus has delivered the events of the statement.

    Args:
        frame: The DataFrame of the statement, which has run.
        jobs: Ids of the Spark jobs of the statement.
        progress: The final progress of the statement. Its tasks count the rows if a catalog runs
            the write; rows of failed tasks are included.

    Returns:
        None if the statement writes no rows, or if Spark does not count them.

    Raises Py4JError.
    """
    command = _find_command(frame)
    if command is None:
        return None
    if _class_name(command) in _V2_WRITES:
        written = command.commitProgress()
        return int(written.get().numOutputRows()) if written.isDefined() else None
    rows = _sum_metrics(Py4JBridge(frame.sparkSession), jobs)
    if rows is None and progress is not None and _class_name(command) in _CATALOG_WRITES:
        return progress.rows_written
    return rows


def _find_command(frame: DataFrame) -> Any | None:
    """Return the physical plan of the command that a DataFrame has run, or None for a query."""
    result: Any = frame._jdf.queryExecution().commandExecuted()  # noqa: SLF001 - PySpark has no public access to a plan
    if _class_name(result) != "CommandResult":
        return None
    command = result.commandPhysicalPlan()
    return command.executedPlan() if _class_name(command) == "AdaptiveSparkPlanExec" else command


def _class_name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _sum_metrics(jvm: Py4JBridge, jobs: Collection[int]) -> int | None:
    """Return the sum over the write commands in the executions of these jobs."""
    store = jvm.session.sharedState().statusStore()
    wanted = {str(job) for job in jobs}
    counts: list[int] = []
    for execution in _list_from_latest(store):
        if not wanted:
            break
        own_jobs = set(execution.jobs().keys().mkString(",").split(","))
        if not wanted.isdisjoint(own_jobs):
            wanted -= own_jobs
            counts += _read_metrics(jvm, store, execution.executionId())
    return sum(counts) if counts else None


def _list_from_latest(store: Any) -> Iterator[Any]:
    """Yield the latest executions, the last one first."""
    offset = max(0, store.executionsCount() - _LATEST_EXECUTIONS)
    executions = store.executionsList(offset, _LATEST_EXECUTIONS)
    for index in reversed(range(executions.size())):
        yield executions.apply(index)


def _read_metrics(jvm: Py4JBridge, store: Any, execution_id: int) -> list[int]:
    """Return the output rows of each write command in one execution."""
    values = store.executionMetrics(execution_id)
    counts = []
    for node in jvm.list_of(store.planGraph(execution_id).allNodes()):
        if not node.name().startswith(_WRITE_COMMAND_PREFIX):
            continue
        for metric in jvm.list_of(node.metrics()):
            if metric.name() != _ROWS_METRIC:
                continue
            value = values.get(metric.accumulatorId())
            if value.isDefined():
                counts.append(int(value.get().replace(",", "")))
    return counts
