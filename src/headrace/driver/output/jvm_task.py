"""Results that tasks in the JVM write: parts in the location, and small outputs that they return.

A task with a Python worker costs some 75 ms more than one without, whatever it does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.output.task import (
    FULL_BUFFERS,
    MIN_BUFFER_BYTES,
    FinishedTask,
    Report,
    TaskOptions,
)
from headrace.driver.spark_version.result_task import (
    ReportedTasks,
    TaskLimits,
    find_hadoop_location,
    run_result_tasks,
)
from headrace.driver.spark_version.shipped_classes import load_shipped_classes
from headrace.results.batches import MAX_VALUES

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def find_jvm_location(session: SparkSession, options: TaskOptions) -> str | None:
    """Return the location as tasks in the JVM write it, or None if Python has to write the result.

    The tasks write the messages of Spark unchanged, and Python has to complete those with a list in
    a list (see `complete_offsets`). Hadoop does not have a file system for each scheme of fsspec.
    """
    if any(_has_nested_list(field.type) for field in options.schema):
        return None
    location: str | None = options.location
    if not options.local:
        location = find_hadoop_location(session, options.location)
    return location if location is not None and load_shipped_classes(session) else None


def run_tasks(
    rows: DataFrame,
    options: TaskOptions,
    location: str,
    reported: ReportedTasks | None,
    limit: int | None = None,
) -> list[Report]:
    """Run the query of a DataFrame, and return the reports of its tasks, as those of `make_task`.

    Args:
        location: What `find_jvm_location` has returned.
        reported: Receives the tasks as they finish.
        limit: What `find_limit` has returned.

    Raises what Spark raises.
    """
    schema = options.schema.serialize().to_pybytes()
    limits = TaskLimits(
        buffer_bytes=options.buffer_bytes,
        full_buffers=FULL_BUFFERS,
        min_buffer_bytes=MIN_BUFFER_BYTES,
        batch_bytes=min(options.chunk_limit, MAX_VALUES),
        rows=-1 if options.row_limit is None else options.row_limit,
        bytes=-1 if options.byte_limit is None else options.byte_limit,
    )
    contents = run_result_tasks(
        rows,
        schema,
        location,
        is_local=options.local,
        limits=limits,
        reported=reported,
        limit=limit,
    )
    reports = []
    for content in contents:
        _partition, report, messages = _read_report(content)
        if report["name"] is None and report["failure"] is None:
            report["data"] = b"".join([schema, *messages, _END_OF_STREAM])
        reports.append(report)
    return reports


def read_finished(content: bytes) -> FinishedTask:
    """Return the task of a report that `ReportedTasks` has received."""
    partition, report, _messages = _read_report(content)
    return {
        "partition": partition,
        "name": report["name"],
        "rows": report["rows"],
        "sizes": report["sizes"],
    }


def _read_report(content: bytes) -> tuple[int, Report, list[bytes]]:
    """Return the partition, the report and the messages with rows that a task has returned."""
    fields = _read_fields(content)
    partition: int = next(fields)
    return partition, next(fields), next(fields)


def _read_fields(content: bytes) -> Iterator[Any]:
    position = 0

    def take(kind: str) -> Any:
        nonlocal position
        values = struct.unpack_from(kind, content, position)
        position += struct.calcsize(kind)
        return values

    def take_bytes() -> bytes:
        (size,) = take(">i")
        value: bytes = take(f"{size}s")[0]
        return value

    yield take(">i")[0]
    name, failure = take_bytes().decode(), take_bytes().decode()
    numbers = take(f">{2 * take('>i')[0]}q")
    yield Report(
        name=name or None,
        rows=list(numbers[::2]),
        sizes=list(numbers[1::2]),
        data=None,
        failure=failure or None,
    )
    yield [take_bytes() for _ in range(take(">i")[0])]


def _has_nested_list(type_: pa.DataType, *, is_in_list: bool = False) -> bool:
    """Return whether a type has a list or a map at any depth in another one."""
    is_list = pa.types.is_list(type_) or pa.types.is_map(type_)
    if is_list and is_in_list:
        return True
    children = [type_.field(index).type for index in range(type_.num_fields)]
    return any(_has_nested_list(child, is_in_list=is_in_list or is_list) for child in children)
