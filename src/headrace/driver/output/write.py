"""Writes one result: the driver collects small results, and executors write large ones."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.driver.output.encode import encode_frame
from headrace.driver.output.executor_write import (
    TaskOutput,
    apply_limits,
    find_task_location,
    write_parts,
)
from headrace.driver.output.flight_server import HeldResult
from headrace.driver.output.held_results import HeldResults
from headrace.driver.output.task import (
    LocationNotWritable,
    PartFile,
    PartitionWriter,
    TaskOptions,
    convert_write_errors,
)
from headrace.driver.spark_version.collect import collect_if_small, read_schema, returns_nothing
from headrace.errors import HeadraceError, ResultsWriteFailed, ResultTooLarge
from headrace.files import locations
from headrace.files.places import join, local_path
from headrace.model.result import (
    Disposition,
    Manifest,
    ResultPart,
    ResultReport,
    has_certain_parts,
)
from headrace.results.batches import MAX_VALUES, group_by_size, serialize_batches
from headrace.results.layout import build_client_schema, build_stored_schema
from headrace.results.manifest import write_manifest
from headrace.results.reader import group_into_chunks
from headrace.results.schema import Schema, TypeKind, parse_schema

_MEMORY_TASKS = 64
"""A task returns at most this part of the free memory."""
_MAX_TASK_BYTES = 1 << 20
"""Whatever the limit of the driver's memory is: the driver then receives about 120 MB at most, even
from 10,000 tasks (see `headrace.driver.output.task`). Spark ends a job that returns more than
spark.driver.maxResultSize, 1 GiB by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Disposition, location and limits for the result of one statement."""

    disposition: Disposition
    row_limit: int | None
    """Maximum number of rows. A result with more rows is cut and marked as truncated."""
    byte_limit: int | None
    """Maximum bytes of all record batches. A larger result is cut and marked as truncated."""
    location: str
    """Directory of this result, a path or a URI, unique to the statement and its attempt."""
    inline_limit: int
    """Maximum bytes of the record batches of an inline result."""
    chunk_limit: int
    """Maximum bytes of the record batches of a chunk, unless a single row is larger."""
    statement_id: str = ""
    held: HeldResults | None = None
    """Holder of `memory` results; None: the driver holds none, and they are stored."""

    @property
    def inline_bytes(self) -> int:
        """Maximum bytes of an inline result, which is one chunk."""
        return min(self.inline_limit, self.chunk_limit)

    @property
    def buffer_bytes(self) -> int:
        """Maximum bytes that a task returns to the driver instead of a part."""
        if self.disposition is Disposition.STORED:
            return 0
        if self.disposition is Disposition.MEMORY and self.held is not None:
            share = min(self.held.free_bytes // _MEMORY_TASKS, _MAX_TASK_BYTES)
            return max(self.inline_bytes, share)
        return self.inline_bytes


# A LIMIT in Spark avoids work, but a single task then writes all rows. With a row limit of at least
# this number, each task stops by itself, and the driver cuts the result.
_MAX_SPARK_LIMIT = 1_000_000


def write_result(frame: DataFrame, options: OutputOptions) -> ResultReport:
    """Run the query of a DataFrame once and write its rows.

    Nothing remains in the location if the function raises.

    Raises:
        ResultTooLarge: The disposition is inline and the result is too large.
        ResultsWriteFailed: The location cannot be written.
        FormatCannotHold: The result has a column of a type that results cannot hold.
        PySparkException, Py4JError: The query failed.
    """
    schema = parse_schema(read_schema(frame))
    writer = _ResultWriter(schema, options, _read_time_zone(frame, schema))
    try:
        return writer.write(encode_frame(frame, schema))
    except LocationNotWritable as error:
        writer.discard()
        raise ResultsWriteFailed(
            f"Cannot write the result to {options.location}: {error}"
        ) from error
    except BaseException:
        writer.discard()
        raise


def _read_time_zone(frame: DataFrame, schema: Schema) -> str | None:
    """Return the time zone of the session if the result has timestamps: the call takes time."""
    if not any(column.type.contains(TypeKind.TIMESTAMP) for column in schema.columns):
        return None
    return frame.sparkSession.conf.get("spark.sql.session.timeZone")


class _ResultWriter:
    """Writes one result."""

    def __init__(self, schema: Schema, options: OutputOptions, time_zone: str | None) -> None:
        self._schema = schema
        self._time_zone = time_zone
        self._options = options
        self._stored_schema = build_stored_schema(schema)
        path = local_path(options.location)
        self._task_options = TaskOptions(
            schema=self._stored_schema,
            location=options.location if path is None else str(path),
            local=path is not None,
            buffer_bytes=options.buffer_bytes,
            chunk_limit=options.chunk_limit,
            row_limit=options.row_limit,
            byte_limit=self._task_byte_limit(),
        )
        self._location_created = False

    def write(self, frame: DataFrame) -> ResultReport:
        """Write the rows and return their report.

        Raises ResultTooLarge, LocationNotWritable, and what Spark raises.
        """
        options = self._options
        if returns_nothing(frame, self._schema):
            return self._finish([self._write_collected(iter(()))], truncated=False)
        if options.row_limit is not None and options.row_limit < _MAX_SPARK_LIMIT:
            # One more row than the limit shows whether the result is truncated.
            frame = frame.limit(options.row_limit + 1)
        outputs = self._collect(frame)
        if outputs is None:
            outputs = self._run_tasks(frame)
        outputs, truncated = apply_limits(
            outputs, options.row_limit, options.byte_limit, self._read_batch
        )
        return self._finish(outputs, truncated=truncated)

    def _collect(self, frame: DataFrame) -> list[TaskOutput] | None:
        """Return the rows of a small or local result, or None if tasks have to write them."""
        batches = collect_if_small(frame, self._schema, self._stored_schema)
        return None if batches is None else [self._write_collected(batches)]

    def _run_tasks(self, frame: DataFrame) -> list[TaskOutput]:
        options = self._options
        location = find_task_location(frame.sparkSession, self._schema, self._task_options)
        if location is None:
            # For a few rows, a Python worker takes longer than the query.
            batches = collect_if_small(frame, self._schema, self._stored_schema, any_size=True)
            if batches is not None:
                return [self._write_collected(batches)]
        self._create_location()
        lists = has_certain_parts(options.disposition, options.row_limit, options.byte_limit)
        outputs, limit = write_parts(
            frame, self._schema, self._task_options, location, lists_finished=lists
        )
        return apply_limits(outputs, limit, None, self._read_batch)[0]

    def discard(self) -> None:
        """Delete everything that was written to the location. Errors are ignored."""
        if self._location_created:
            with contextlib.suppress(HeadraceError):
                locations.delete(self._options.location)

    def _finish(self, outputs: list[TaskOutput], *, truncated: bool) -> ResultReport:
        """Keep the outputs where the options say, and return the report.

        Raises ResultTooLarge and LocationNotWritable.
        """
        options = self._options
        size = sum(sum(output.sizes) for output in outputs)
        # An empty result needs no memory: it is inline.
        if options.disposition is Disposition.MEMORY and size:
            return self._hold(outputs, truncated, size) or self._finish_stored(outputs, truncated)
        if options.disposition is not Disposition.STORED:
            if size <= options.inline_bytes:
                return self._finish_inline(outputs, truncated)
            if options.disposition is Disposition.INLINE:
                raise ResultTooLarge(
                    f"The result is larger than {options.inline_bytes} bytes, the limit of"
                    " an inline result. Use the disposition 'auto' or 'stored', or limit rows or"
                    " bytes."
                )
        return self._finish_stored(outputs, truncated)

    def _task_byte_limit(self) -> int | None:
        """Return the number of bytes after which rows of a partition cannot be in the result."""
        limits = [self._options.byte_limit]
        if self._options.disposition is Disposition.INLINE:
            limits.append(self._options.inline_bytes)
        return min((limit for limit in limits if limit is not None), default=None)

    def _create_location(self) -> None:
        if not self._location_created:
            self._location_created = True
            with convert_write_errors():
                locations.create_directory(self._options.location)

    def _write_collected(self, batches: Iterator[pa.RecordBatch]) -> TaskOutput:
        """Return collected rows as one output. Many rows are written as a part."""
        buffer_bytes = self._task_options.buffer_bytes
        writer = PartitionWriter(
            self._task_options, "part-driver.arrow", buffer_bytes, self._create_location
        )
        try:
            for batch in batches:
                writer.add(batch)
                if writer.exceeds_limit:
                    break
            part, data = writer.close()
        except BaseException:
            writer.discard()
            raise
        return TaskOutput(writer.rows, writer.sizes, part, data)

    def _read_batch(self, output: TaskOutput, index: int) -> pa.RecordBatch:
        if output.part is None:
            return output.read_data()[index]
        part = join(self._options.location, output.part)
        with locations.open_input_file(part) as file:
            return pa.ipc.open_file(file).get_batch(index)

    def _read_batches(self, output: TaskOutput) -> Iterator[pa.RecordBatch]:
        if output.part is None:
            yield from output.read_data()
            return
        for index, rows in enumerate(output.rows):
            yield self._read_batch(output, index).slice(0, rows)

    def _finish_inline(self, outputs: list[TaskOutput], truncated: bool) -> ResultReport:
        batches = [batch for output in outputs for batch in self._read_batches(output)]
        if len(batches) > 1 and self._schema.columns:
            table = pa.Table.from_batches(batches, self._stored_schema).combine_chunks()
            batches = table.to_batches()
        data = serialize_batches(batches, self._stored_schema)
        self.discard()
        return self._make_report(Disposition.INLINE, outputs, truncated, chunks=1, data=data)

    def _hold(self, outputs: list[TaskOutput], truncated: bool, size: int) -> ResultReport | None:
        """Hold the rows in memory and return their report; None if they do not fit."""
        held, statement_id = self._options.held, self._options.statement_id
        if held is None or not held.reserve(statement_id, size):
            return None
        batches = (batch for output in outputs for batch in self._read_batches(output))
        # Nodes refuse a batch of more values.
        limit = min(self._options.chunk_limit, MAX_VALUES)
        try:
            # The copies keep no memory of rows that a limit has cut, or of many small buffers.
            chunks = [pa.concat_batches(group) for group in group_by_size(batches, limit)]
        except BaseException:
            held.release([statement_id])
            raise
        spark_json = json.dumps(self._schema.spark)
        client_schema = build_client_schema(self._schema, spark_json)
        port = held.hold(statement_id, HeldResult(self._stored_schema, client_schema, chunks))
        if port is None:
            return None
        self.discard()
        return self._make_report(
            Disposition.MEMORY, outputs, truncated, chunks=len(chunks), port=port
        )

    def _finish_stored(self, outputs: list[TaskOutput], truncated: bool) -> ResultReport:
        location, chunk_limit = self._options.location, self._options.chunk_limit
        self._create_location()
        parts = self._store_parts(outputs)
        report = self._make_report(
            Disposition.STORED,
            outputs,
            truncated,
            chunks=len(group_into_chunks(parts, chunk_limit)),
        )
        manifest = Manifest(
            spark_schema=report.spark_schema,
            row_count=report.row_count,
            byte_count=report.byte_count,
            truncated=truncated,
            chunk_limit=chunk_limit,
            parts=parts,
        )
        # Failed task attempts and limits leave parts that do not belong to the result.
        with contextlib.suppress(HeadraceError):
            locations.delete_files_except(location, {part.name for part in parts})
        with convert_write_errors():
            write_manifest(location, manifest)
        return report

    def _store_parts(self, outputs: list[TaskOutput]) -> list[ResultPart]:
        """Return the parts of all outputs. Consecutive outputs in memory become one part."""
        parts: list[ResultPart] = []
        in_memory: list[TaskOutput] = []
        for output in [*outputs, None]:
            if output is not None and output.part is None:
                in_memory += [output] if output.rows else []
                continue
            if in_memory:
                parts.append(self._write_part(in_memory, len(parts)))
                in_memory = []
            if output is not None:
                part = ResultPart(name=str(output.part), rows=output.rows, bytes=output.sizes)
                parts.append(part)
        return parts

    def _write_part(self, outputs: list[TaskOutput], number: int) -> ResultPart:
        name = f"part-merged-{number:06d}.arrow"
        file = PartFile(self._task_options, name)
        for output in outputs:
            for batch in output.read_data():
                file.write(batch)
        file.close()
        rows = [rows for output in outputs for rows in output.rows]
        sizes = [size for output in outputs for size in output.sizes]
        return ResultPart(name=name, rows=rows, bytes=sizes)

    def _make_report(
        self,
        disposition: Disposition,
        outputs: list[TaskOutput],
        truncated: bool,
        *,
        chunks: int,
        data: bytes | None = None,
        port: int | None = None,
    ) -> ResultReport:
        return ResultReport(
            disposition=disposition,
            spark_schema=dict(self._schema.spark),
            time_zone=self._time_zone,
            row_count=sum(sum(output.rows) for output in outputs),
            byte_count=sum(sum(output.sizes) for output in outputs),
            truncated=truncated,
            chunks=chunks,
            data=data,
            port=port,
        )
