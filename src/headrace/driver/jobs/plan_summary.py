"""What Spark's analysed plan says about the state of a query. See PlanSummary.

Two plans with equal summaries keep equal state. The summary is strict where Spark's plan hides how
a key is computed: every computed column below a stateful operator belongs to that operator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from headrace.driver.py4j_bridge import Py4JBridge, plan_class_name
from headrace.model.job import METADATA_COLUMNS, PlanSummary
from headrace.model.stream_options import is_tuning_option

_SOURCES = {"StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation"}
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
_MAX_TEXT = 1000
"""Longest description that a summary contains as it is."""
_SHOWN_TEXT = 800
_SECRETS = ("password", "secret", "token", "sasl", "ssl", "credential", "user")


def summarize(frame: DataFrame) -> PlanSummary:
    """Return the summary of the plan of a streaming frame. Raises Py4JError."""
    jvm = Py4JBridge(frame.sparkSession)
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - not in PySpark's API
    sources, operators, is_complete = list[str](), list[str](), True
    for node in _walk(jvm, plan):
        kind = plan_class_name(node)
        if kind in _SOURCES:
            sources.append(_describe_source(jvm, node))
        elif kind in _STATEFUL or (kind == "Join" and _joins_streams(jvm, node)):
            operators.append(_describe_operator(jvm, node))
        elif kind not in _STATELESS and kind != "Join":
            is_complete = False
    return PlanSummary(
        is_streaming=frame.isStreaming,
        # In their order: Spark finds the offsets of a source by its position.
        sources=[_shorten(source) for source in sources],
        operators=[_shorten(operator) for operator in operators],
        columns=[
            (field.name, field.dataType.simpleString())
            for field in frame.schema.fields
            if field.name not in METADATA_COLUMNS
        ],
        is_complete=is_complete,
    )


def _shorten(text: str) -> str:
    """Return a text, or its beginning and its hash if it is long."""
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_SHOWN_TEXT]}… sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _walk(jvm: Py4JBridge, plan: Any) -> Iterator[Any]:
    """Yield the streaming nodes of a plan, from the top."""
    remaining = [plan]
    while remaining:
        node = remaining.pop()
        if node.isStreaming():
            yield node
            remaining += reversed(jvm.list_of(node.children()))


def _joins_streams(jvm: Py4JBridge, node: Any) -> bool:
    return all(child.isStreaming() for child in jvm.list_of(node.children()))


def _describe_source(jvm: Py4JBridge, node: Any) -> str:
    if plan_class_name(node) == "StreamingRelationV2":
        options = jvm.java_map(node.extraOptions().asCaseSensitiveMap())
    else:
        options = jvm.map_of(node.dataSource().options())
    shown = sorted(
        f"{key.lower()}={value}"
        for key, value in options.items()
        if not is_tuning_option(key) and not any(word in key.lower() for word in _SECRETS)
    )
    return f"{node.sourceName()}({', '.join(shown)})"


def _describe_operator(jvm: Py4JBridge, node: Any) -> str:
    own = [_describe_expression(each) for each in jvm.list_of(node.expressions())]
    computed = [
        _describe_expression(each)
        for child in jvm.list_of(node.children())
        for below in _walk(jvm, child)
        if plan_class_name(below) in {"Project", "Expand", "Generate"}
        for each in jvm.list_of(below.expressions())
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
