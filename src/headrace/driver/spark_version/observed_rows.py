"""Rows that Spark counts on their way to a table: DataFrame.observe in an INSERT or a CTAS."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation, SparkSession

from headrace.driver.spark_version.bridge import (
    INSERT,
    Py4JBridge,
    analysed_plan,
    compile_java,
    option_value,
    plan_class_name,
)

_LISTENER_BUS_MILLIS = 10_000
"""Longest time to wait for the counts of a write that its catalog runs in a query of its own."""
_LISTENER = "ObservedRows"
"""The Java class that keeps the counts of all queries of a session."""
_COLLECT_METRICS = "org.apache.spark.sql.execution.CollectMetricsExec"


def find_query(parsed_plan: Any) -> Any | None:
    """Return the query of a parsed INSERT; None for another statement. Raises Py4JError."""
    return parsed_plan.query() if plan_class_name(parsed_plan) == INSERT else None


def replace_query(insert: Any, query: DataFrame) -> Any:
    """Return a parsed INSERT that writes the rows of another query. Raises Py4JError."""
    jvm = Py4JBridge(query.sparkSession)
    return insert.withNewChildren(jvm.sequence([analysed_plan(query)]))


def uses_row_alone(computed: DataFrame, rows: DataFrame) -> bool:
    """Return whether the added columns of `computed` depend on their row alone. Raises Py4JError.

    Aggregates, window functions and generators add nodes to the plan, and subqueries are plans.
    """
    plan = analysed_plan(computed)
    if plan_class_name(plan) != "Project" or not plan.child().equals(analysed_plan(rows)):
        return False
    return bool(plan.subqueries().isEmpty())


def keep_observations(session: SparkSession) -> None:
    """Keep what the queries of a session count, for a catalog that writes rows in several queries.

    Nothing removes the listener: pass a session that ends with its statement. Raises Py4JError.
    """
    jvm = Py4JBridge(session)
    jvm.session.listenerManager().register(compile_java(jvm.root, _LISTENER))


def read_observation(frame: DataFrame, observation: Observation) -> dict[str, int] | None:
    """Return the counts of an observation in a statement that has run, by name.

    Return None if Spark has none. Raises Py4JError.
    """
    name = str(observation._name)  # noqa: SLF001 - PySpark has no public access to it
    row = _read_from_plan(frame, name) or _read_from_listener(frame, observation, name)
    if row is None:
        return None
    names = [str(each) for each in row.schema().fieldNames()]
    return {each: int(row.getLong(index)) for index, each in enumerate(names)}


def _read_from_plan(frame: DataFrame, name: str) -> Any | None:
    """Return the counts in the physical plan of a command, or None."""
    result: Any = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - as above
    if plan_class_name(result) != "CommandResultExec":
        return None
    jvm = Py4JBridge(frame.sparkSession)
    metrics = jvm.singleton(_COLLECT_METRICS).collect(result.commandPhysicalPlan())
    return option_value(metrics.get(name))


def _read_from_listener(frame: DataFrame, observation: Observation, name: str) -> Any | None:
    """Return the counts of a query that a catalog such as Delta has run inside of the command."""
    jvm = Py4JBridge(frame.sparkSession)
    try:
        jvm.context.listenerBus().waitUntilEmpty(_LISTENER_BUS_MILLIS)
    except Py4JJavaError:
        # Other statements keep it busy.
        return None
    observed: Any = observation._jo  # noqa: SLF001 - as above
    completed = option_value(observed.future().value())
    row = None if completed is None or completed.isFailure() else completed.get()
    if row is None or row.length() == 0:
        # The Observation has ended with a query that wrote no rows: see ObservedRows.java.
        return compile_java(jvm.root, _LISTENER).take(name)
    return row
