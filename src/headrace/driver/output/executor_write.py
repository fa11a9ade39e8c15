"""Large results: executors write parts, or return small outputs to the driver, in one pass.

Spark converts the rows to Arrow in the JVM, as for `DataFrame.toArrow`, and hands each batch to the
Python function of the task as one message. This takes less than half the time of `mapInArrow`,
where Spark first writes the rows of the query into rows of a struct.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pyarrow as pa
from pyspark import RDD, cloudpickle
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame
from pyspark.sql.functions import lit

from headrace.driver.output import task
from headrace.driver.output.collect import collect_rdd
from headrace.driver.output.finished_parts import FinishedPartsLister
from headrace.driver.output.task import LocationNotWritable, TaskOptions, make_task
from headrace.driver.output.task_outputs import TaskOutput
from headrace.driver.sql_execution import run_as_sql_execution
from headrace.results import batches
from headrace.results.batches import enlarge_offsets
from headrace.results.schema import Schema

SHIPPED_MODULES = (task, batches)
"""Modules that Spark tasks carry by value, because executors do not have Headrace installed."""

_LARGE_OFFSETS = "spark.sql.execution.arrow.useLargeVarTypes"
_NO_COLUMNS = pa.schema([("_0", pa.int32())])


def write_parts(
    frame: DataFrame, schema: Schema, options: TaskOptions, *, lists_finished: bool = False
) -> list[TaskOutput]:
    """Run the query once. Each task writes its rows as one part or returns them.

    Args:
        lists_finished: Whether to list the finished parts in the location while the query runs.

    Returns the outputs of the tasks in the order of the partitions. Raises LocationNotWritable if
    a task could not write its part, and what Spark raises.
    """
    register: Any = cloudpickle.register_pickle_by_value
    for module in SHIPPED_MODULES:
        register(module)
    # Arrow readers lose rows that have no columns.
    rows = frame if schema.columns else frame.select(lit(0))
    message_schema = options.schema if schema.columns else _NO_COLUMNS
    if frame.sparkSession.conf.get(_LARGE_OFFSETS) == "true":
        message_schema = enlarge_offsets(message_schema)
    lister = FinishedPartsLister(frame.sparkSession, schema, options) if lists_finished else None
    run_task = make_task(options, message_schema, None if lister is None else lister.accumulator)

    def run_tasks() -> list[task.Report]:
        messages = rows._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001 - as toArrow does
        rdd: RDD[bytes] = RDD(messages, frame.sparkSession.sparkContext, NoOpSerializer())
        return collect_rdd(rdd.mapPartitionsWithIndex(run_task))

    with lister or nullcontext():
        reports = run_as_sql_execution(rows, run_tasks)
    for report in reports:
        if report["failure"] is not None:
            raise LocationNotWritable(report["failure"])
    return [
        TaskOutput(report["rows"], report["sizes"], part=report["name"], data=report["data"])
        for report in reports
    ]
