"""Whether a streaming query has ended by itself: Spark does not say so."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.driver.py4j_bridge import Py4JBridge

_PROGRESS_CONTEXT = "org.apache.spark.sql.execution.streaming.runtime.ProgressContext"


def has_ended_by_itself(session: SparkSession, query: StreamingQuery) -> bool:
    """Return whether the trigger has ended a query, after all batches.

    Spark reports a stopped query as it reports a complete one. Its MicroBatchExecution keeps the
    last trigger, however: a query ends by itself after a trigger that has run to its end and, if
    there can be several batches (MultiBatchExecutor), has found no more rows.
    """
    jvm = Py4JBridge(session)
    execution = query._jsq.streamingQuery()  # noqa: SLF001 - PySpark has no access to the execution
    trigger = execution.getLatestExecutionContext()
    if jvm.field(trigger, "currentTriggerEndTimestamp", _PROGRESS_CONTEXT) < 0:
        return False
    executor = str(execution.triggerExecutor().getClass().getSimpleName())
    return executor != "MultiBatchExecutor" or not trigger.isCurrentBatchConstructed()
