"""The number of rows that an INSERT or a CTAS has written, from the metrics of its SQL execution.

The plan of a CTAS has no metrics: Spark and Delta run the write as a nested execution. The metrics
of all executions are in Spark's SQLAppStatusStore, which exists with or without the UI.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from headrace.driver.progress import find_metrics
from headrace.driver.py4j_bridge import Py4JBridge, plan_class_name
from headrace.model.statement import Progress

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
