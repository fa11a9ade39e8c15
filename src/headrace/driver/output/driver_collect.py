"""Small results: rows brought to the driver.

Three ways. `constant_rows` computes a `SELECT` without FROM while it is planned. `plan_rows` asks
the physical plan for its rows and has the JVM put them into Arrow: no Spark job for local rows, and
only as many partitions as a plain LIMIT needs. `job_rows` is what `toArrow` does: one job over all
partitions, visible in Spark's SQL page.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.driver.output.arrow_collect import collect_arrow
from headrace.driver.output.constant_projection import constant_rows
from headrace.results.batches import conform
from headrace.results.schema import Schema, SparkType, TypeKind

_BATCH_ROWS = 10_000
_SMALL_ROWS = 1_000
_SMALL_BYTES = 16 * 1024 * 1024

_UNBOUNDED = (
    TypeKind.STRING,
    TypeKind.BINARY,
    TypeKind.VARIANT,
    TypeKind.GEOMETRY,
    TypeKind.GEOGRAPHY,
)
_UNBOUNDED_NESTS = (TypeKind.ARRAY, TypeKind.MAP)
_VALUE_BYTES = 16


def collect_small(
    frame: DataFrame, schema: Schema, stored: pa.Schema
) -> Iterator[pa.RecordBatch] | None:
    """The rows of a frame that is known to be small or is here already, else None."""
    execution = frame._jdf.queryExecution()  # noqa: SLF001 - PySpark's way to its plan
    optimized = execution.optimizedPlan()
    jvm = frame.sparkSession._jvm  # noqa: SLF001 - the way to the JVM
    constant = constant_rows(jvm, optimized)
    if constant is not None:
        return arrow_rows(jvm, constant, frame._jdf.schema(), stored)  # noqa: SLF001 - as above
    plan = execution.executedPlan()
    name = plan.nodeName()
    if name in {"LocalTableScan", "CommandResult"}:
        return plan_rows(jvm, plan, stored)
    bound = optimized.maxRows().toString()
    if not (bound.startswith("Some(") and _is_small(schema, int(bound[5:-1]))):
        return None
    if name == "CollectLimit":
        return plan_rows(jvm, plan, stored)
    return job_rows(frame, stored)


def _is_small(schema: Schema, rows: int) -> bool:
    """Whether that many rows of a schema may be brought to the driver."""
    if rows <= _SMALL_ROWS:
        return True
    types = [column.type for column in schema.columns]
    if any(kind.contains(*_UNBOUNDED, *_UNBOUNDED_NESTS) for kind in types):
        return False
    return rows * _VALUE_BYTES * max(1, sum(map(_values, types))) <= _SMALL_BYTES


def _values(kind: SparkType) -> int:
    """How many plain values one of a type consists of."""
    return max(1, sum(map(_values, kind.children)))


def plan_rows(jvm: Any, plan: Any, stored: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a physical plan, by its own `executeCollect`."""
    rows = jvm.scala.Predef.genericWrapArray(plan.executeCollect()).iterator()
    return arrow_rows(jvm, rows, plan.schema(), stored)


def arrow_rows(jvm: Any, rows: Any, schema: Any, stored: pa.Schema) -> Iterator[pa.RecordBatch]:
    """An iterator of the JVM's own rows, with their schema there, as record batches.

    Every call here is a round trip to the JVM, and every object it returns another one when it is
    let go of: there are no more of them than needed.
    """
    messages = _converters(jvm).toBatchIterator(
        rows, schema, _BATCH_ROWS, "UTC", False, False, None
    )
    ended = False
    try:
        while not (ended := not messages.hasNext()):
            # The message holds no names: it is read with those of the stored form.
            yield pa.ipc.read_record_batch(pa.py_buffer(messages.next()), stored)
    finally:
        if not ended:
            messages.close()


@lru_cache(maxsize=1)
def _converters(jvm: Any) -> Any:
    """Found once: each step to a class is a round trip to the JVM."""
    return getattr(getattr(jvm, "org.apache.spark.sql.execution.arrow.ArrowConverters$"), "MODULE$")


def job_rows(frame: DataFrame, stored: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a frame by one job over all its partitions, in order."""
    for batch in collect_arrow(frame):
        yield conform(batch, stored)
