"""Small results: their rows are collected on the driver.

There are four methods:

- `compute_constant_rows` evaluates a `SELECT` without FROM at planning time.
- `collect_plan_rows` converts local rows of the physical plan to Arrow in the JVM, without a job.
- `collect_limit_rows` does so with the rows of a LIMIT, which reads only as many partitions as it
  needs.
- `collect_by_job` runs one job over all partitions, as `DataFrame.toArrow` does.

All jobs belong to a SQL execution: they appear on the SQL page of the Spark UI, and their tasks see
the configuration of the session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark import RDD
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer
from pyspark.util import local_connect_and_auth

from headrace.driver.spark_version.sql_execution import run_as_sql_execution
from headrace.results.batches import complete_offsets, normalize_batch
from headrace.results.schema import Schema, SparkType, TypeKind

_CATALYST = "org.apache.spark.sql.catalyst"


def compute_constant_rows(jvm: Any, optimized: Any) -> Any:
    """Return the rows of an optimized plan as a JVM iterator, or None if they need a job.

    Non-deterministic projections (`rand()`, `reflect(…)`) get a job, because they may take long and
    only a job can be cancelled. Raises what Spark raises when it cannot compute a value.
    """
    if optimized.nodeName() != "Project" or optimized.child().nodeName() != "OneRowRelation":
        return None
    if not optimized.deterministic():
        return None
    one_row, project, rule = _load_jvm_objects(jvm)
    # The rule leaves projections that it cannot evaluate unchanged, for example Python functions.
    planned = rule.apply(project(optimized.projectList(), one_row))
    if planned.nodeName() != "LocalRelation":
        return None
    return planned.data().iterator()


@lru_cache(maxsize=1)
def _load_jvm_objects(jvm: Any) -> tuple[Any, Any, Any]:
    """Return a LocalRelation of one row, the class Project, and the rule.

    The objects are cached, because each segment of a class name is a round trip to the JVM.
    """

    def get_singleton(name: str) -> Any:
        return getattr(getattr(jvm, f"{name}$"), "MODULE$")

    nil = get_singleton("scala.collection.immutable.Nil")
    rows = getattr(nil, "$colon$colon")(get_singleton(f"{_CATALYST}.InternalRow").empty())
    logical = getattr(jvm, f"{_CATALYST}.plans.logical")
    one_row = logical.LocalRelation(nil, rows, False, get_singleton("scala.None"))
    rule = get_singleton(f"{_CATALYST}.optimizer.ConvertToLocalRelation")
    return one_row, logical.Project, rule


_T = TypeVar("_T")


def collect_arrow(frame: DataFrame) -> list[pa.RecordBatch]:
    """Return the batches of a DataFrame in order. Raises what Spark raises.

    `DataFrame.toArrow` also casts to PySpark's Arrow schema, which fails for some types.
    """
    # An index is one round trip. To unpack the Java array takes seven.
    answer = frame._jdf.collectAsArrowToPython()  # noqa: SLF001 - as toArrow does
    port, secret, server = answer[0], answer[1], answer[2]
    # PySpark has no type annotations for this function.
    serializer = cast("Callable[[], Any]", ArrowCollectSerializer)()
    try:
        with _open_connection(port, secret) as file:
            # Batches arrive as their tasks end. The last item lists their indices in row order.
            *batches, order = serializer.load_stream(file)
    finally:
        with unwrap_spark_exception():
            server.getResult()
    return [batches[index] for index in order]


def collect_rdd(rdd: RDD[_T]) -> list[_T]:
    """Return the elements of an RDD in order. Raises what Spark raises."""
    jvm: Any = rdd.context._jvm  # noqa: SLF001 - as RDD.collect does
    port, secret, *_ = jvm.PythonRDD.collectAndServe(rdd._jrdd.rdd())  # noqa: SLF001 - as above
    with _open_connection(port, secret) as file:
        serializer: Any = rdd._jrdd_deserializer  # noqa: SLF001 - as above
        return list(serializer.load_stream(file))


def open_message_rdd(frame: DataFrame) -> RDD[bytes]:
    """Return the rows of a DataFrame as messages with a record batch each, as toArrow makes them.

    Tasks get each message as it is: `toArrowBatchRdd` converts rows two to three times faster than
    `mapInArrow`.
    """
    messages = frame._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001 - as toArrow does
    return RDD(messages, frame.sparkSession.sparkContext, NoOpSerializer())


def read_schema(frame: DataFrame) -> dict[str, Any]:
    """Return the schema of a DataFrame, as Spark writes it in JSON."""
    schema: dict[str, Any] = json.loads(frame._jdf.schema().json())  # noqa: SLF001 - PySpark would copy it
    return schema


@contextmanager
def _open_connection(port: int, secret: str) -> Iterator[Any]:
    """Yield a file that reads what the JVM serves at a port."""
    connect: Any = local_connect_and_auth
    file, socket = connect(port, secret)
    # The timeout of the connection must not limit the query.
    socket.settimeout(None)
    try:
        yield file
    finally:
        file.close()
        socket.close()


_BATCH_ROWS = 10_000
SMALL_ROWS = 1_000
"""Largest number of rows that are few: a LIMIT of as many reads one partition after another."""
_FEW_ROWS = 20
"""Rows that are collected whatever their size: the first ones of an order, or an aggregate."""
_SMALL_BYTES = 16 * 1024 * 1024

_VARIABLE_SIZE_KINDS = (
    TypeKind.STRING,
    TypeKind.BINARY,
    TypeKind.VARIANT,
    TypeKind.GEOMETRY,
    TypeKind.GEOGRAPHY,
    TypeKind.ARRAY,
    TypeKind.MAP,
)
_MAX_VALUE_BYTES = 16
"""Bytes of the largest atomic value of a fixed size."""


def collect_if_small(
    frame: DataFrame, schema: Schema, stored_schema: pa.Schema, *, any_size: bool = False
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows of a DataFrame that is small or local, or None if it may be large.

    Args:
        any_size: Whether SMALL_ROWS are small although their values may have any size.
    """
    execution = frame._jdf.queryExecution()  # noqa: SLF001 - PySpark offers no other way to plans
    optimized = execution.optimizedPlan()
    jvm = frame.sparkSession._jvm  # noqa: SLF001 - PySpark offers no other way to the JVM
    constant = compute_constant_rows(jvm, optimized)
    if constant is not None:
        jvm_schema = frame._jdf.schema()  # noqa: SLF001 - as above
        return convert_rows(jvm, constant, jvm_schema, stored_schema)
    plan = execution.executedPlan()
    node = plan.nodeName()
    if node in {"LocalTableScan", "CommandResult"}:
        return collect_plan_rows(jvm, plan, stored_schema)
    max_rows = optimized.maxRows().toString()
    if not (max_rows.startswith("Some(") and _is_small(schema, int(max_rows[5:-1]), any_size)):
        return None
    if node == "CollectLimit":
        return collect_limit_rows(frame, plan, stored_schema)
    return collect_by_job(frame, stored_schema)


def returns_nothing(frame: DataFrame, schema: Schema) -> bool:
    """Return whether a DataFrame is a command that has run and returns neither columns nor rows.

    Spark would plan and execute a query over its empty result.
    """
    if schema.columns:
        return False
    result = frame._jdf.queryExecution().commandExecuted()  # noqa: SLF001 - as above
    return bool(result.nodeName() == "CommandResult" and result.rows().isEmpty())


def _is_small(schema: Schema, rows: int, any_size: bool) -> bool:
    """Return whether this many rows of a schema may be collected on the driver."""
    types = [column.type for column in schema.columns]
    if any(spark_type.contains(*_VARIABLE_SIZE_KINDS) for spark_type in types):
        return rows <= (SMALL_ROWS if any_size else _FEW_ROWS)
    if rows <= SMALL_ROWS:
        return True
    return rows * _MAX_VALUE_BYTES * max(1, sum(map(_count_values, types))) <= _SMALL_BYTES


def _count_values(spark_type: SparkType) -> int:
    """Return how many atomic values a value of this type contains."""
    return max(1, sum(map(_count_values, spark_type.children)))


def collect_limit_rows(
    frame: DataFrame, plan: Any, stored_schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Execute a plan that stops at a LIMIT, as one SQL execution, and return the rows."""
    rows = run_as_sql_execution(frame, plan.executeCollect)
    jvm = frame.sparkSession._jvm  # noqa: SLF001 - PySpark offers no other way to the JVM
    return convert_rows(jvm, _iterate(jvm, rows), plan.schema(), stored_schema)


def collect_plan_rows(jvm: Any, plan: Any, stored_schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Return the rows of a physical plan that needs no job."""
    return convert_rows(jvm, _iterate(jvm, plan.executeCollect()), plan.schema(), stored_schema)


def _iterate(jvm: Any, rows: Any) -> Any:
    return _get_predef(jvm).genericWrapArray(rows).iterator()


@lru_cache(maxsize=1)
def _get_predef(jvm: Any) -> Any:
    """Return Scala's Predef, cached: each segment of its name is a round trip to the JVM."""
    return getattr(getattr(jvm, "scala.Predef$"), "MODULE$")


def convert_rows(
    jvm: Any, rows: Any, jvm_schema: Any, stored_schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Convert a JVM iterator of InternalRow to record batches.

    The number of calls is minimal: each call is a round trip to the JVM, and releasing each object
    that a call returns is another.
    """
    messages = _get_arrow_converters(jvm).toBatchIterator(
        rows, jvm_schema, _BATCH_ROWS, "UTC", False, False, None
    )
    exhausted = False
    try:
        while not (exhausted := not messages.hasNext()):
            # A message contains no names, so it is read with the stored schema.
            message = pa.py_buffer(messages.next())
            yield complete_offsets(pa.ipc.read_record_batch(message, stored_schema))
    finally:
        if not exhausted:
            messages.close()


@lru_cache(maxsize=1)
def _get_arrow_converters(jvm: Any) -> Any:
    """Return ArrowConverters, cached: each segment of its name is a round trip to the JVM."""
    return getattr(getattr(jvm, "org.apache.spark.sql.execution.arrow.ArrowConverters$"), "MODULE$")


def collect_by_job(frame: DataFrame, stored_schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Collect the rows of a DataFrame, in order, with one job over all its partitions."""
    for batch in collect_arrow(frame):
        yield normalize_batch(complete_offsets(batch), stored_schema)
