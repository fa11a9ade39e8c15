"""How a streaming query has ended: Spark does not say so."""

from __future__ import annotations

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.driver.spark_version.bridge import Py4JBridge

_PROGRESS_CONTEXT = "org.apache.spark.sql.execution.streaming.runtime.ProgressContext"
_SINGLE_BATCH, _MULTI_BATCH = "SingleBatchExecutor", "MultiBatchExecutor"


def has_ended_by_itself(session: SparkSession, query: StreamingQuery) -> bool:
    """Return whether the trigger has ended a query, after all batches.

    Spark reports a stopped query as it reports a complete one. Its MicroBatchExecution keeps the
    last trigger, however. Only the executors of ONCE and AVAILABLE NOW end by themselves: after a
    trigger that has run to its end and, if there can be several batches (MultiBatchExecutor), has
    found no more rows. Any other trigger runs until something stops the query.
    """
    jvm = Py4JBridge(session)
    execution = _execution_of(query)
    trigger = execution.getLatestExecutionContext()
    if jvm.field(trigger, "currentTriggerEndTimestamp", _PROGRESS_CONTEXT) < 0:
        return False
    executor = str(execution.triggerExecutor().getClass().getSimpleName())
    if executor == _MULTI_BATCH:
        return not trigger.isCurrentBatchConstructed()
    return executor == _SINGLE_BATCH


def find_later_run(session: SparkSession, query: StreamingQuery) -> str | None:
    """Return the id of another active run on the checkpoint of a query, or None.

    Spark stops a run when another one of the same checkpoint starts in its application
    (`spark.sql.streaming.stopActiveRunOnRestart`). The id of a query belongs to its checkpoint.
    """
    shared = session._jsparkSession.sharedState()  # noqa: SLF001 - not in PySpark's API
    active = shared.activeStreamingQueries().get(_execution_of(query).id())
    run = None if active is None else str(active.runId())
    return None if run == query.runId else run


def _execution_of(query: StreamingQuery) -> JavaObject:
    return query._jsq.streamingQuery()  # noqa: SLF001 - PySpark has no access to the execution
