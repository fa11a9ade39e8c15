"""Streaming queries: what they report, whether they can run, and how they have ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.driver.spark_version.bridge import (
    DATASET,
    Py4JBridge,
    analysed_plan,
    list_of,
    option_value,
    plan_class_name,
)
from headrace.grammar.quoting import quote_name

_PROGRESS_CONTEXT = "org.apache.spark.sql.execution.streaming.runtime.ProgressContext"
_COMMITTED = "addBatch"
"""Phase that only the progress of a batch has. Spark also reports that there was nothing to do."""
_CONTINUOUS = "ContinuousExecution"
_V1_SOURCES = {"StreamingRelation", "StreamingExecutionRelation"}
_SOURCES = {*_V1_SOURCES, "StreamingRelationV2"}
_STATELESS = {
    *("Project", "Filter", "SubqueryAlias", "View", "Union", "Generate", "ResolvedHint"),
    *("Repartition", "RepartitionByExpression", "RebalancePartitions", "Sort", "Expand"),
    *("LocalRelation", "OneRowRelation", "Range", "Sample", "LocalLimit"),
    *("MapInPandas", "MapInArrow", "PythonMapInArrow", "SerializeFromObject", "MapElements"),
    *("DeserializeToObject", "TypedFilter", "CollectMetrics", "WithCTE", "CTERelationDef"),
}
_STATEFUL = {
    *("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit"),
    *("EventTimeWatermark", "UpdateEventTimeWatermarkColumn"),
}
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
    active = _active_queries(session).get(_execution_of(query).id())
    run = None if active is None else str(active.runId())
    return None if run == query.runId else run


def wait_for_end(query: StreamingQuery, milliseconds: int) -> bool:
    """Wait for the end of a query, and return whether it has ended. Raise its error."""
    return bool(query._jsq.awaitTermination(milliseconds))  # noqa: SLF001 - PySpark waits for seconds


def find_last_report(query: StreamingQuery) -> str | None:
    """Return the time of Spark's last report, which no other report has; None before the first.

    Raises Py4JError.
    """
    last = query._jsq.lastProgress()  # noqa: SLF001 - PySpark would parse the whole report
    return None if last is None else str(last.timestamp())


def find_last_epoch(query: StreamingQuery) -> int | None:
    """Return the last committed epoch of a query with TRIGGER CONTINUOUS; None if there is none.

    Return None for any other query too. Spark reports no progress of a continuous query: only the
    log of its commits shows it. Raises Py4JError.
    """
    execution = _execution_of(query)
    if execution.getClass().getSimpleName() != _CONTINUOUS:
        return None
    latest = option_value(execution.commitLog().getLatestBatchId())
    return None if latest is None else int(latest)


def list_reports(query: StreamingQuery, after: int | None) -> list[dict[str, Any]]:
    """Return Spark's reports of the committed batches after a number, oldest first.

    Spark keeps the last hundred. Raises Py4JError.
    """
    execution = query._jsq  # noqa: SLF001 - PySpark parses every report for each access
    new: list[dict[str, Any]] = []
    # A report takes a millisecond of the cores that the query uses: read only the new ones.
    for report in reversed(list(execution.recentProgress())):
        if after is not None and report.batchId() <= after:
            break
        fields = json.loads(report.json())
        if _COMMITTED in fields.get("durationMs", {}):
            new.append(fields)
    return new[::-1]


def find_java_error(query: StreamingQuery) -> Any | None:
    """Return the Java error with which a query has failed, or None. Raises Py4JError."""
    error = option_value(query._jsq.exception())  # noqa: SLF001 - PySpark keeps only its text
    # The exception itself only says that the query has failed.
    return error and (error.getCause() or error)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The parts of a streaming plan on which its checkpoint depends."""

    sources: list[tuple[str, dict[str, str]]]
    """Name and options of each source, from the top of the plan."""
    operators: list[str]
    """Descriptions of the operators that have state."""
    is_complete: bool
    """Whether all operators of the plan are known."""


def describe_stream(frame: DataFrame) -> StreamPlan:
    """Describe the plan of a streaming frame. Raises Py4JError."""
    jvm = Py4JBridge(frame.sparkSession)
    plan = StreamPlan([], [], is_complete=True)
    for node in _walk(analysed_plan(frame)):
        kind = plan_class_name(node)
        if kind in _SOURCES:
            plan.sources.append(_read_source(jvm, node))
        elif kind in _STATEFUL or (kind == "Join" and _joins_streams(node)):
            plan.operators.append(_describe_operator(node))
        elif kind not in _STATELESS and kind != "Join":
            plan = replace(plan, is_complete=False)
    return plan


def _walk(plan: Any) -> Iterator[Any]:
    """Yield the streaming nodes of a plan, from the top."""
    remaining = [plan]
    while remaining:
        node = remaining.pop()
        if node.isStreaming():
            yield node
            remaining += reversed(list_of(node.children()))


def _joins_streams(node: Any) -> bool:
    return all(child.isStreaming() for child in list_of(node.children()))


def _read_source(jvm: Py4JBridge, node: Any) -> tuple[str, dict[str, str]]:
    if plan_class_name(node) == "StreamingRelationV2":
        options = jvm.java_map(node.extraOptions().asCaseSensitiveMap())
    else:
        options = jvm.map_of(node.dataSource().options())
    return str(node.sourceName()), options


def _describe_operator(node: Any) -> str:
    own = [_describe_expression(each) for each in list_of(node.expressions())]
    computed = [
        _describe_expression(each)
        for child in list_of(node.children())
        for below in _walk(child)
        if plan_class_name(below) in {"Project", "Expand", "Generate"}
        for each in list_of(below.expressions())
        if plan_class_name(each) != "AttributeReference"
    ]
    extra = f" {node.joinType().sql()}" if plan_class_name(node) == "Join" else ""
    return f"{plan_class_name(node)}{extra}({'; '.join(own)}) over ({'; '.join(computed)})"


def _describe_expression(expression: Any) -> str:
    """Return an expression without the ids that differ between two analyses."""
    try:
        return f"{expression.sql()}: {expression.dataType().catalogString()}"
    except Py4JJavaError:
        # Some expressions have no SQL. Their text has ids, so that it equals no other.
        return str(expression.toString())


def count_active_queries(session: SparkSession) -> int:
    """Return the number of running queries of the application.

    `session.streams` knows the queries of its own session, and clones have others.
    """
    return int(_active_queries(session).size())


def _active_queries(session: SparkSession) -> Any:
    """Return the running queries of the application, as a Java map by id."""
    shared = session._jsparkSession.sharedState()  # noqa: SLF001 - not in PySpark's API
    return shared.activeStreamingQueries()


def check_output_mode(rows: DataFrame, mode: str) -> None:
    """Raise AnalysisException if Spark cannot run a query in an output mode, e.g. `Append`."""
    jvm = Py4JBridge(rows.sparkSession)
    output_mode = getattr(jvm.type("org.apache.spark.sql.streaming.OutputMode"), mode)()
    checker = jvm.singleton("org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
    checker.checkForStreaming(analysed_plan(rows), output_mode)


def find_batch_source(rows: DataFrame) -> str | None:
    """Return a source of DataSource V1 that a frame reads, which only has batches; or None."""
    leaves = analysed_plan(rows).collectLeaves()
    for leaf in list_of(leaves):
        if plan_class_name(leaf) in _V1_SOURCES:
            return str(leaf)
    return None


def has_aggregation(rows: DataFrame) -> bool:
    """Return whether a stream is aggregated, so that its result changes as a whole."""
    return any(plan_class_name(node) == "Aggregate" for node in _walk(analysed_plan(rows)))


def publish_memory_view(session: SparkSession, name: str) -> None:
    """Show the view of a memory sink in the session of the driver's statements.

    Spark creates the view in the session of the query, which no statement sees.
    """
    jvm = Py4JBridge(session)
    rows = analysed_plan(session.table(quote_name(name))).collectLeaves().apply(0)
    driver_session = jvm.type("org.apache.spark.sql.classic.SparkSession").getDefaultSession()
    frame = jvm.singleton(DATASET).ofRows(driver_session.get(), rows)
    frame.createOrReplaceTempView(quote_name(name))


def _execution_of(query: StreamingQuery) -> JavaObject:
    return query._jsq.streamingQuery()  # noqa: SLF001 - PySpark has no access to the execution
