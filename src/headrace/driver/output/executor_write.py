"""Results with any number of rows: tasks write parts, or return small outputs, in one pass.

Spark converts the rows to Arrow in the JVM, as for `DataFrame.toArrow`. A task in the JVM writes
each batch as it is. Where it cannot (see `find_jvm_location`), Spark hands each batch to the Python
function of the task as one message. This takes less than half the time of `mapInArrow`, where Spark
first writes the rows of the query into rows of a struct.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa
from pyspark import Accumulator, cloudpickle
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from headrace.driver.output import task
from headrace.driver.output.jvm_task import find_jvm_location, read_finished, run_tasks
from headrace.driver.output.task import (
    FinishedTask,
    FinishedTasks,
    LocationNotWritable,
    TaskOptions,
    make_task,
)
from headrace.driver.spark_version.collect import collect_rdd, open_message_rdd
from headrace.driver.spark_version.result_task import ReportedTasks, find_limit
from headrace.driver.spark_version.sql_execution import run_as_sql_execution
from headrace.model.result import FinishedParts, ResultPart
from headrace.results import batches
from headrace.results.batches import batch_bytes, count_rows_within, enlarge_offsets
from headrace.results.early_rows import write_finished_parts
from headrace.results.schema import Schema


@dataclass(frozen=True)
class TaskOutput:
    """The rows of one task: either a part in the results location or a stream in memory."""

    rows: list[int]
    """For each batch, the number of its first rows that belong to the result."""
    sizes: list[int]
    """Bytes of each batch."""
    part: str | None
    """File name of the part."""
    data: bytes | None
    """Arrow IPC stream of rows in memory."""

    def read_data(self) -> list[pa.RecordBatch]:
        """Return the batches in memory, without the rows that a limit cut off."""
        with pa.ipc.open_stream(self.data) as stream:
            return [batch.slice(0, rows) for batch, rows in zip(stream, self.rows, strict=False)]


def apply_limits(
    outputs: list[TaskOutput],
    row_limit: int | None,
    byte_limit: int | None,
    read_batch: Callable[[TaskOutput, int], pa.RecordBatch],
) -> tuple[list[TaskOutput], bool]:
    """Cut the outputs to the longest run of first rows within both limits.

    Args:
        outputs: Outputs in the order of their rows.
        row_limit: Maximum number of rows, or None.
        byte_limit: Maximum number of bytes, or None.
        read_batch: Returns a batch of an output by index. It is called once, for the batch that
            must be cut.

    Returns:
        The outputs within the limits, and whether rows were cut off.
    """
    rows_left = row_limit if row_limit is not None else sum(sum(output.rows) for output in outputs)
    bytes_left = (
        byte_limit if byte_limit is not None else sum(sum(output.sizes) for output in outputs)
    )
    for position, output in enumerate(outputs):
        for index, (rows, size) in enumerate(zip(output.rows, output.sizes, strict=True)):
            if rows <= rows_left and size <= bytes_left:
                rows_left -= rows
                bytes_left -= size
                continue
            batch = read_batch(output, index).slice(0, min(rows, rows_left))
            cut_batch = batch.slice(0, count_rows_within(batch, bytes_left))
            last = _cut_output(output, index, cut_batch)
            return [*outputs[:position], *([last] if last.rows else [])], True
    return outputs, False


def _cut_output(output: TaskOutput, index: int, cut_batch: pa.RecordBatch) -> TaskOutput:
    """Return an output that ends with the rows of `cut_batch`, its batch number `index`."""
    rows, sizes = output.rows[:index], output.sizes[:index]
    if cut_batch.num_rows:
        rows, sizes = [*rows, cut_batch.num_rows], [*sizes, batch_bytes(cut_batch)]
    return replace(output, rows=rows, sizes=sizes)


_LOG = logging.getLogger("headrace.driver")
_INTERVAL_SECONDS = 0.1


class _Finished(Protocol):
    """Receives the tasks of a query as they finish."""

    def read_new(self) -> list[FinishedTask]:
        """Return the tasks that have finished since the last call."""

    def close(self) -> None:
        """Free what the query has used."""


class _FinishedInPython:
    """Receives the tasks with Python workers."""

    def __init__(self, session: SparkSession) -> None:
        nothing: list[FinishedTask] = []
        self.accumulator: Accumulator[list[FinishedTask]] = session.sparkContext.accumulator(
            nothing, FinishedTasks()
        )
        self._received = 0

    def read_new(self) -> list[FinishedTask]:
        """See `_Finished`."""
        new = self.accumulator.value[self._received :]
        self._received += len(new)
        return new

    def close(self) -> None:
        """See `_Finished`."""
        # PySpark keeps every accumulator for ever.
        _accumulatorRegistry.pop(self.accumulator.aid, None)


class _FinishedInJvm:
    """Receives the tasks in the JVM."""

    def __init__(self, session: SparkSession) -> None:
        self.reported = ReportedTasks(session)

    def read_new(self) -> list[FinishedTask]:
        """See `_Finished`."""
        return [read_finished(content) for content in self.reported.read_new()]

    def close(self) -> None:
        """Spark frees the accumulator when nothing refers to it."""


class PartsInOrder:
    """Puts the parts of finished tasks in order."""

    def __init__(self) -> None:
        self._tasks: dict[int, FinishedTask] = {}
        """Finished tasks that follow a task which has not finished, by partition."""
        self._next_partition = 0

    def add(self, tasks: Iterable[FinishedTask]) -> list[ResultPart]:
        """Add finished tasks, and return the parts that follow the parts returned before.

        A task that has returned its rows to the driver ends the list: the driver writes these rows
        as a part when the job has ended.
        """
        self._tasks |= {task["partition"]: task for task in tasks}
        parts = []
        while (task := self._tasks.get(self._next_partition)) is not None:
            if task["rows"] and task["name"] is None:
                break
            if task["name"] is not None:
                part = ResultPart(name=task["name"], rows=task["rows"], bytes=task["sizes"])
                parts.append(part)
            del self._tasks[self._next_partition]
            self._next_partition += 1
        return parts


class FinishedPartsLister:
    """A thread that lists finished parts until the end of the block."""

    def __init__(self, schema: Schema, location: str, tasks: _Finished) -> None:
        self._spark_schema = dict(schema.spark)
        self._location = location
        self._tasks = tasks
        self._parts = PartsInOrder()
        self._files = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-parts", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._tasks.close()

    def _run(self) -> None:
        try:
            while not self._ended.wait(_INTERVAL_SECONDS):
                self._list_new_parts()
        except Exception:  # noqa: BLE001 - the result itself reports a location that fails
            _LOG.exception("finished parts in %s are not listed any more", self._location)

    def _list_new_parts(self) -> None:
        parts = self._parts.add(self._tasks.read_new())
        if parts:
            finished = FinishedParts(spark_schema=self._spark_schema, parts=parts)
            write_finished_parts(self._location, self._files, finished)
            self._files += 1


SHIPPED_MODULES = (task, batches)
"""Modules that Spark tasks carry by value, because executors do not have Headrace installed."""

_LARGE_OFFSETS = "spark.sql.execution.arrow.useLargeVarTypes"
_NO_COLUMNS = pa.schema([("_0", pa.int32())])


def find_task_location(session: SparkSession, schema: Schema, options: TaskOptions) -> str | None:
    """Return the location as tasks in the JVM write it, or None if Python has to write."""
    if not schema.columns or _has_large_offsets(session):
        return None
    return find_jvm_location(session, options)


def _has_large_offsets(session: SparkSession) -> bool:
    # Spark reads the value in any case.
    return str(session.conf.get(_LARGE_OFFSETS)).strip().lower() == "true"


def write_parts(
    frame: DataFrame,
    schema: Schema,
    options: TaskOptions,
    location: str | None,
    *,
    lists_finished: bool = False,
) -> tuple[list[TaskOutput], int | None]:
    """Run the query once. Each task writes its rows as one part or returns them.

    Args:
        location: What `find_task_location` has returned.
        lists_finished: Whether to list the finished parts in the location while the query runs.

    Returns:
        The outputs of the tasks in the order of the partitions, and the number of their first rows
        that belong to the result; None: all.

    Raises LocationNotWritable if a task could not write its part, and what Spark raises.
    """
    session = frame.sparkSession
    limit = None
    if location is not None:
        limit = find_limit(frame)
        # A task may write rows beyond the limit.
        lists_finished = lists_finished and limit is None
        in_jvm = _FinishedInJvm(session) if lists_finished else None
        reported = None if in_jvm is None else in_jvm.reported
        with _list_parts(schema, options, in_jvm):
            reports = run_as_sql_execution(
                frame, lambda: run_tasks(frame, options, location, reported, limit)
            )
    else:
        in_python = _FinishedInPython(session) if lists_finished else None
        # Arrow readers lose rows that have no columns.
        rows = frame if schema.columns else frame.select(lit(0))
        message_schema = options.schema if schema.columns else _NO_COLUMNS
        if _has_large_offsets(session):
            message_schema = enlarge_offsets(message_schema)
        with _list_parts(schema, options, in_python):
            reports = _run_python_tasks(rows, options, message_schema, in_python)
    for report in reports:
        if report["failure"] is not None:
            raise LocationNotWritable(report["failure"])
    outputs = [
        TaskOutput(report["rows"], report["sizes"], part=report["name"], data=report["data"])
        for report in reports
    ]
    return outputs, limit


def _list_parts(
    schema: Schema, options: TaskOptions, tasks: _Finished | None
) -> AbstractContextManager[None]:
    """Return the block in which the parts of finished tasks are listed, if there are any."""
    return nullcontext() if tasks is None else FinishedPartsLister(schema, options.location, tasks)


def _run_python_tasks(
    rows: DataFrame,
    options: TaskOptions,
    message_schema: pa.Schema,
    finished: _FinishedInPython | None,
) -> list[task.Report]:
    register: Any = cloudpickle.register_pickle_by_value
    for module in SHIPPED_MODULES:
        register(module)
    accumulator = None if finished is None else finished.accumulator
    run_task = make_task(options, message_schema, accumulator)

    def collect() -> list[task.Report]:
        return collect_rdd(open_message_rdd(rows).mapPartitionsWithIndex(run_task))

    return run_as_sql_execution(rows, collect)
