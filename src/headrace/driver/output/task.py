"""The function that a Spark task runs on its partition: write the rows as a part or return them.

Headrace is not installed on executors, so tasks carry this module by value. It uses pyarrow,
pyspark, and fsspec if the location is a URI. Of Headrace it may import only modules that are
carried too (`SHIPPED_MODULES` in `headrace.driver.output.executor_write`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, TaskContext

from headrace.results.batches import (
    MAX_VALUES,
    batch_bytes,
    complete_offsets,
    normalize_batch,
    serialize_batches,
    split_batch,
)

# The first tasks may each return as much as an inline result holds, later tasks less. The driver
# therefore receives about 30 MB at most, even from 10,000 partitions.
FULL_BUFFERS = 16
"""Number of the first tasks that may return as much as an inline result holds."""
MIN_BUFFER_BYTES = 1024
"""Bytes that any task may return."""


class Report(TypedDict):
    """What a task returns to the driver."""

    name: str | None
    """File name of the part."""
    rows: list[int]
    """Rows of each batch."""
    sizes: list[int]
    """Bytes of each batch."""
    data: bytes | None
    """Arrow IPC stream of rows without a part."""
    failure: str | None
    """Reason why the part was not written."""


@dataclass(frozen=True)
class TaskOptions:
    """Options of all tasks of a result."""

    schema: pa.Schema
    """The stored schema."""
    location: str
    """Directory of the result."""
    local: bool
    """Whether `location` is a plain path."""
    buffer_bytes: int
    """Maximum bytes that a task keeps in memory and returns without writing a part."""
    chunk_limit: int
    """Maximum bytes of a batch."""
    row_limit: int | None
    """Number of rows after which a task may stop."""
    byte_limit: int | None
    """Number of bytes after which a task may stop."""


class LocationNotWritable(Exception):
    """The results location cannot be written. The message is that of the file system."""


@contextmanager
def convert_write_errors(on_failure: Callable[[], None] | None = None) -> Iterator[None]:
    """Raise LocationNotWritable for any error of a file system, after calling `on_failure`."""
    try:
        yield
    except Exception as error:
        if on_failure is not None:
            on_failure()
        raise LocationNotWritable(str(error) or type(error).__name__) from error


class PartFile:
    """An Arrow IPC file to be written. Every method except `discard` raises LocationNotWritable."""

    def __init__(self, options: TaskOptions, name: str) -> None:
        self._path = f"{options.location}/{name}"
        self._local = options.local
        self._file: Any = None
        with convert_write_errors(self.discard):
            self._file = self._open()
            self._writer = pa.ipc.new_file(self._file, options.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        with convert_write_errors(self.discard):
            self._writer.write_batch(batch)

    def close(self) -> None:
        with convert_write_errors(self.discard):
            self._writer.close()
            self._file.close()

    def discard(self) -> None:
        """Delete the file. Errors are ignored, because the driver cleans up the location too."""
        for step in (self._close_file, self._delete):
            with suppress(Exception):
                step()

    def _open(self) -> Any:
        if self._local:
            return pa.OSFile(self._path, "wb")
        return _import_fsspec().open(self._path, "wb").open()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()

    def _delete(self) -> None:
        if self._local:
            Path(self._path).unlink(missing_ok=True)
            return
        system, inner = _import_fsspec().core.url_to_fs(self._path)
        system.rm(inner)


def _import_fsspec() -> Any:
    # Executors need fsspec only if the location is a URI.
    return importlib.import_module("fsspec")


class PartitionWriter:
    """Keeps the batches of a partition in memory up to a limit, and writes a part beyond it.

    `rows` and `sizes` are the rows and bytes of each batch. `before_part` is called before the part
    is created.
    """

    def __init__(
        self,
        options: TaskOptions,
        name: str,
        buffer_bytes: int,
        before_part: Callable[[], None] | None = None,
    ) -> None:
        self._options = options
        self._before_part = before_part
        self._name = name
        self._buffer_bytes = buffer_bytes
        self._buffer: list[pa.RecordBatch] = []
        self._part: PartFile | None = None
        self.rows: list[int] = []
        self.sizes: list[int] = []
        self._row_total = 0
        self._byte_total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch in slices of at most a chunk's size. Raises LocationNotWritable."""
        # Nodes refuse a batch of more values, unless each value has a byte.
        for rows in split_batch(batch, min(self._options.chunk_limit, MAX_VALUES)):
            size = batch_bytes(rows)
            self.rows.append(rows.num_rows)
            self.sizes.append(size)
            self._row_total += rows.num_rows
            self._byte_total += size
            if self._part is not None:
                self._part.write(rows)
            else:
                self._buffer.append(rows)
                if self._byte_total > self._buffer_bytes:
                    self._spill()
            if self.exceeds_limit:
                return

    @property
    def exceeds_limit(self) -> bool:
        """Whether the partition exceeds a limit, so that its later rows are not needed."""
        options = self._options
        return (options.row_limit is not None and self._row_total > options.row_limit) or (
            options.byte_limit is not None and self._byte_total > options.byte_limit
        )

    def close(self) -> tuple[str | None, bytes | None]:
        """Return the file name of the part, or else the rows as an Arrow IPC stream.

        The other value is None. Raises LocationNotWritable.
        """
        if self._part is not None:
            self._part.close()
            return self._name, None
        return None, serialize_batches(self._buffer, self._options.schema)

    def discard(self) -> None:
        if self._part is not None:
            self._part.discard()

    def _spill(self) -> None:
        if self._before_part is not None:
            self._before_part()
        self._part = PartFile(self._options, self._name)
        for batch in self._buffer:
            self._part.write(batch)
        self._buffer.clear()


class FinishedTask(TypedDict):
    """What an accumulator receives of a task."""

    partition: int
    name: str | None
    """File name of the part; None: the task has none, because it has few rows or none."""
    rows: list[int]
    sizes: list[int]


class FinishedTasks(AccumulatorParam[list[FinishedTask]]):
    """Collects what the tasks add, in any order."""

    def zero(self, value: list[FinishedTask]) -> list[FinishedTask]:  # noqa: ARG002 - of PySpark
        return []

    def addInPlace(  # noqa: N802 - the name of PySpark
        self, value1: list[FinishedTask], value2: list[FinishedTask]
    ) -> list[FinishedTask]:
        value1 += value2
        return value1


def make_task(
    options: TaskOptions,
    message_schema: pa.Schema,
    finished: Accumulator[list[FinishedTask]] | None = None,
) -> Callable[[int, Iterable[bytes]], Iterable[Report]]:
    """Return the function that runs on each partition.

    Its arguments are the number of the partition and the record batches as IPC messages. It yields
    one report, or none for an empty partition.

    Args:
        options: Options of all tasks.
        message_schema: The schema of the messages, which contain none.
        finished: Accumulator to which each task adds itself. Spark applies the update of exactly
            one attempt for each partition, when it accepts its result.
    """

    def task(partition: int, messages: Iterable[bytes]) -> Iterator[Report]:
        context = TaskContext.get()
        assert context is not None
        # The id of the attempt keeps retries and speculative tasks from writing the same file.
        name = f"part-{partition:06d}-{context.taskAttemptId()}.arrow"
        writer = PartitionWriter(options, name, _buffer_bytes_of(partition, options))
        try:
            for message in messages:
                writer.add(_read_message(message, message_schema, options.schema))
                if writer.exceeds_limit:
                    break
            part, data = writer.close()
            _add_to(finished, partition, part, writer)
        except LocationNotWritable as failure:
            # Reported instead of raised: Spark would retry the task, but a full disk stays full.
            yield _make_report(writer, None, None, str(failure))
        except BaseException:
            writer.discard()
            raise
        else:
            if writer.rows:
                yield _make_report(writer, part, data, None)

    return task


def _add_to(
    finished: Accumulator[list[FinishedTask]] | None,
    partition: int,
    part: str | None,
    writer: PartitionWriter,
) -> None:
    """Add a task to the accumulator, if there is one."""
    if finished is not None:
        rows, sizes = writer.rows, writer.sizes
        finished.add([{"partition": partition, "name": part, "rows": rows, "sizes": sizes}])


def _read_message(
    message: bytes, message_schema: pa.Schema, stored_schema: pa.Schema
) -> pa.RecordBatch:
    """Return the batch of an IPC message under the stored schema."""
    batch = complete_offsets(pa.ipc.read_record_batch(pa.py_buffer(message), message_schema))
    if message_schema is stored_schema:
        return batch
    # A result without columns comes with a placeholder column (see `write_parts`).
    return normalize_batch(batch if stored_schema else batch.select([]), stored_schema)


def _buffer_bytes_of(partition: int, options: TaskOptions) -> int:
    """Return how many bytes the task of a partition may return."""
    full = options.buffer_bytes
    share = full * FULL_BUFFERS // max(partition + 1, FULL_BUFFERS)
    return min(full, max(share, MIN_BUFFER_BYTES))


def _make_report(
    writer: PartitionWriter, part: str | None, data: bytes | None, failure: str | None
) -> Report:
    return {
        "name": part,
        "rows": writer.rows,
        "sizes": writer.sizes,
        "data": data,
        "failure": failure,
    }
