"""What a Spark task does with the rows of its partition: hand them back, or write a part.

Executors get this module by value, as they have no Headrace: it stands on pyarrow, pyspark, and
fsspec where the location is a URI. Of the rest of Headrace it may use only what travels with it
(`TRAVELS` in `headrace.driver.output.executor_write`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from headrace.results.batches import conform, size, split

# Tasks that may hand back as much as an inline result holds. Later ones may hand back less, so that
# ten thousand partitions do not fill the driver: it gets some 30 MB at most from them.
_GENEROUS_TASKS = 16
_LEAST_HELD = 1024

REPORT = (
    "partition int, name string, rows array<bigint>, sizes array<bigint>, data binary,"
    " failure string"
)
"""A task's one row, as Spark DDL. `data` is an Arrow IPC stream; `name` that of a part."""

_REPORT_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("name", pa.string()),
        ("rows", pa.list_(pa.field("element", pa.int64()))),
        ("sizes", pa.list_(pa.field("element", pa.int64()))),
        ("data", pa.binary()),
        ("failure", pa.string()),
    ]
)


@dataclass(frozen=True)
class TaskOptions:
    """What every task of a result is told."""

    schema: pa.Schema
    """The stored form."""
    location: str
    local: bool
    """Whether `location` is a plain path."""
    held_bytes: int
    chunk_limit: int
    row_limit: int | None
    byte_limit: int | None


class WriteFailed(Exception):
    """The part could not be written; the message is the file system's."""


@contextmanager
def writing(on_failure: Callable[[], None] | None = None) -> Iterator[None]:
    """Whatever a file system raises, as WriteFailed; `on_failure` cleans up before."""
    try:
        yield
    except Exception as error:
        if on_failure is not None:
            on_failure()
        raise WriteFailed(str(error) or type(error).__name__) from error


class PartFile:
    """One Arrow IPC file that is being written. Every step raises WriteFailed."""

    def __init__(self, spec: TaskOptions, name: str) -> None:
        self._path = f"{spec.location}/{name}"
        self._local = spec.local
        self._file: Any = None
        with writing(self.discard):
            self._file = self._opened()
            self._writer = pa.ipc.new_file(self._file, spec.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        with writing(self.discard):
            self._writer.write_batch(batch)

    def close(self) -> None:
        with writing(self.discard):
            self._writer.close()
            self._file.close()

    def discard(self) -> None:
        """Removes what was written; a failure of that is left to the result's own clean-up."""
        for step in (self._close_file, self._remove):
            with suppress(Exception):
                step()

    def _opened(self) -> Any:
        if self._local:
            return pa.OSFile(self._path, "wb")
        return _fsspec().open(self._path, "wb").open()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()

    def _remove(self) -> None:
        if self._local:
            Path(self._path).unlink(missing_ok=True)
            return
        system, inner = _fsspec().core.url_to_fs(self._path)
        system.rm(inner)


def _fsspec() -> Any:
    """Imported when a location is a URI: executors need it for nothing else."""
    return importlib.import_module("fsspec")


class Sink:
    """Takes the pieces of one partition, in order: in memory first, in a part beyond a limit."""

    def __init__(
        self,
        spec: TaskOptions,
        name: str,
        held_limit: int,
        before_part: Callable[[], None] | None = None,
    ) -> None:
        self._spec = spec
        self._before_part = before_part
        self._name = name
        self._held_limit = held_limit
        self._held: list[pa.RecordBatch] = []
        self._part: PartFile | None = None
        self.rows: list[int] = []
        self.sizes: list[int] = []
        self._row_total = 0
        self._byte_total = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes a batch in pieces of a chunk's size at most. Raises WriteFailed."""
        for piece in split(batch, self._spec.chunk_limit):
            taken = size(piece)
            self.rows.append(piece.num_rows)
            self.sizes.append(taken)
            self._row_total += piece.num_rows
            self._byte_total += taken
            if self._part is not None:
                self._part.write(piece)
            else:
                self._held.append(piece)
                if self._byte_total > self._held_limit:
                    self._spill()
            if self.full:
                return

    @property
    def full(self) -> bool:
        """Whether the partition alone is beyond a limit: no later row of it can be wanted."""
        spec = self._spec
        return (spec.row_limit is not None and self._row_total > spec.row_limit) or (
            spec.byte_limit is not None and self._byte_total > spec.byte_limit
        )

    def close(self) -> tuple[str | None, bytes | None]:
        """The name of the part that was written, or else what was held. Raises WriteFailed."""
        if self._part is not None:
            self._part.close()
            return self._name, None
        return None, write_stream(self._held, self._spec.schema)

    def discard(self) -> None:
        if self._part is not None:
            self._part.discard()

    def _spill(self) -> None:
        if self._before_part is not None:
            self._before_part()
        self._part = PartFile(self._spec, self._name)
        for piece in self._held:
            self._part.write(piece)
        self._held.clear()


def write_stream(batches: list[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """The batches as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def make_task(spec: TaskOptions) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The function that `mapInArrow` runs on each partition; see `REPORT` for what it yields."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        # The attempt's id is unique in the application: no retry or twin writes the same file.
        name = f"part-{partition:06d}-{context.taskAttemptId()}.arrow"
        held = max(spec.held_bytes * _GENEROUS_TASKS // max(partition + 1, _GENEROUS_TASKS), 1)
        sink = Sink(spec, name, min(spec.held_bytes, max(held, _LEAST_HELD)))
        try:
            for batch in batches:
                # Rows without columns come with one that is not theirs (`spread`).
                sink.add(conform(batch if spec.schema else batch.select([]), spec.schema))
                if sink.full:
                    break
            part, data = sink.close()
        except WriteFailed as failure:
            # Reported, not raised: Spark would repeat the task, and a full disk stays full.
            yield _report(partition, None, sink, None, str(failure))
        except BaseException:
            sink.discard()
            raise
        else:
            if sink.rows:
                yield _report(partition, part, sink, data, None)

    return task


def _report(
    partition: int, name: str | None, sink: Sink, data: bytes | None, failure: str | None
) -> pa.RecordBatch:
    values = [partition, name, sink.rows, sink.sizes, data, failure]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([value], field.type)
            for value, field in zip(values, _REPORT_SCHEMA, strict=True)
        ],
        schema=_REPORT_SCHEMA,
    )
