"""Large results: the executors write parts, or hand back what is small, in one pass."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.functions import lit

from headrace.driver.output import task
from headrace.driver.output.arrow_collect import collect_arrow
from headrace.driver.output.encode import positional_names
from headrace.driver.output.task import REPORT, TaskOptions, WriteFailed, make_task
from headrace.driver.output.task_outputs import TaskOutput
from headrace.results import batches
from headrace.results.schema import Schema

SHIPPED_MODULES = (task, batches)
"""The modules that executors get by value."""


def write_parts(frame: DataFrame, schema: Schema, spec: TaskOptions) -> list[TaskOutput]:
    """What each partition of the frame came to, in order. Raises WriteFailed."""
    register: Any = cloudpickle.register_pickle_by_value
    for module in SHIPPED_MODULES:
        register(module)
    # mapInArrow finds columns by name, and loses rows without columns.
    named = (
        frame.toDF(*positional_names(schema))
        if schema.columns
        else frame.select(lit(0).alias("_0"))
    )
    reports = named.mapInArrow(make_task(spec), REPORT)
    reported = [report for batch in collect_arrow(reports) for report in batch.to_pylist()]
    for report in reported:
        if report["failure"] is not None:
            raise WriteFailed(report["failure"])
    reported.sort(key=lambda report: int(report["partition"]))
    return [
        TaskOutput(report["rows"], report["sizes"], part=report["name"], data=report["data"])
        for report in reported
    ]
