"""Large results: executors write parts, or return small outputs to the driver, in one pass."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.functions import lit

from headrace.driver.output import task
from headrace.driver.output.arrow_collect import collect_arrow
from headrace.driver.output.task import REPORT, LocationNotWritable, TaskOptions, make_task
from headrace.driver.output.task_outputs import TaskOutput
from headrace.results import batches
from headrace.results.layout import make_positional_names
from headrace.results.schema import Schema

SHIPPED_MODULES = (task, batches)
"""Modules that Spark tasks carry by value, because executors do not have Headrace installed."""


def write_parts(frame: DataFrame, schema: Schema, options: TaskOptions) -> list[TaskOutput]:
    """Run the query once. Each task writes its rows as one part or returns them.

    Returns the outputs of the tasks in the order of the partitions. Raises LocationNotWritable if
    a task could not write its part, and what Spark raises.
    """
    register: Any = cloudpickle.register_pickle_by_value
    for module in SHIPPED_MODULES:
        register(module)
    # mapInArrow resolves columns by name, and loses rows that have no columns.
    named = (
        frame.toDF(*make_positional_names(len(schema.columns)))
        if schema.columns
        else frame.select(lit(0).alias("_0"))
    )
    report_batches = collect_arrow(named.mapInArrow(make_task(options), REPORT))
    reports = [report for batch in report_batches for report in batch.to_pylist()]
    for report in reports:
        if report["failure"] is not None:
            raise LocationNotWritable(report["failure"])
    reports.sort(key=lambda report: int(report["partition"]))
    return [
        TaskOutput(report["rows"], report["sizes"], part=report["name"], data=report["data"])
        for report in reports
    ]
