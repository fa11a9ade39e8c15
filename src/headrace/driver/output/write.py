"""Writing one result: choose the way, apply the limits, and leave it inline or stored."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.driver.output.driver_collect import collect_small
from headrace.driver.output.encode import encode_frame
from headrace.driver.output.executor_write import write_parts
from headrace.driver.output.options import OutputOptions
from headrace.driver.output.task import (
    PartFile,
    Sink,
    TaskOptions,
    WriteFailed,
    write_stream,
    writing,
)
from headrace.driver.output.task_outputs import TaskOutput, apply_limits
from headrace.errors import HeadraceError, ResultsWriteFailed, ResultTooLarge
from headrace.model.result import Disposition, Manifest, ResultPart, ResultReport
from headrace.results.chunks import count_out
from headrace.results.layout import stored_schema
from headrace.results.reader import write_manifest
from headrace.results.schema import Schema, parse_schema
from headrace.storage import locations

# Spark's own limit spares work that the rows do not need, but lets one task write them all. Above
# this many rows each task stops by itself, and the driver finds the cut.
_LIMITED_BY_SPARK = 1_000_000


def write_result(frame: DataFrame, spec: OutputOptions) -> ResultReport:
    """Runs the frame's query once and writes its rows.

    Raises ResultTooLarge when an inline result is asked for and it is too large, ResultsWriteFailed
    when the location cannot be written, FormatCannotHold for a type that no result can hold, and
    whatever Spark raises. Nothing stays in the location then.
    """
    schema = parse_schema(json.loads(frame._jdf.schema().json()))  # noqa: SLF001 - unparsed
    output = _Output(schema, spec)
    try:
        return output.written(encode_frame(frame, schema))
    except WriteFailed as error:
        output.remove()
        raise ResultsWriteFailed(f"cannot write the result to {spec.location}: {error}") from error
    except BaseException:
        output.remove()
        raise


class _Output:
    """One result while it is being written."""

    def __init__(self, schema: Schema, spec: OutputOptions) -> None:
        self._schema = schema
        self._spec = spec
        self._stored = stored_schema(schema)
        path = locations.local_path(spec.location)
        self._task = TaskOptions(
            schema=self._stored,
            location=spec.location if path is None else str(path),
            local=path is not None,
            held_bytes=0 if spec.disposition is Disposition.STORED else spec.inline_bytes,
            chunk_limit=spec.chunk_limit,
            row_limit=spec.row_limit,
            byte_limit=self._wanted_bytes(),
        )
        self._touched = False

    def written(self, frame: DataFrame) -> ResultReport:
        """The report of the frame's rows. Raises WriteFailed and what Spark raises."""
        spec = self._spec
        if spec.row_limit is not None and spec.row_limit < _LIMITED_BY_SPARK:
            frame = frame.limit(spec.row_limit + 1)
        batches = collect_small(frame, self._schema, self._stored)
        if batches is None:
            self._prepare()
            pieces = write_parts(frame, self._schema, self._task)
        else:
            pieces = self._taken(batches)
        pieces, truncated = apply_limits(pieces, spec.row_limit, spec.byte_limit, self._load)
        if spec.disposition is not Disposition.STORED:
            taken = sum(sum(piece.sizes) for piece in pieces)
            if taken <= spec.inline_bytes:
                return self._inline(pieces, truncated)
            if spec.disposition is Disposition.INLINE:
                raise ResultTooLarge(
                    f"the result takes more than {spec.inline_bytes} bytes, which is what an inline"
                    " result may hold: ask for the disposition 'auto' or 'stored', or set a limit"
                )
        return self._store(pieces, truncated)

    def remove(self) -> None:
        """Leaves nothing in the location."""
        if self._touched:
            with contextlib.suppress(HeadraceError):
                locations.delete(self._spec.location)

    def _wanted_bytes(self) -> int | None:
        """Bytes of a partition beyond which none of its rows can be wanted."""
        limits = [self._spec.byte_limit]
        if self._spec.disposition is Disposition.INLINE:
            limits.append(self._spec.inline_bytes)
        return min((limit for limit in limits if limit is not None), default=None)

    def _prepare(self) -> None:
        if not self._touched:
            self._touched = True
            with writing():
                locations.create_directory(self._spec.location)

    def _taken(self, batches: Iterator[pa.RecordBatch]) -> list[TaskOutput]:
        """Rows that came to the driver, as one piece: written out where they are many."""
        sink = Sink(self._task, "part-driver.arrow", self._task.held_bytes, self._prepare)
        try:
            for batch in batches:
                sink.add(batch)
                if sink.full:
                    break
            part, data = sink.close()
        except BaseException:
            sink.discard()
            raise
        return [TaskOutput(sink.rows, sink.sizes, part, data)]

    def _load(self, piece: TaskOutput, index: int) -> pa.RecordBatch:
        if piece.part is None:
            return piece.held()[index]
        place = locations.join(self._spec.location, piece.part)
        with locations.open_input_file(place) as file:
            return pa.ipc.open_file(file).get_batch(index)

    def _batches(self, piece: TaskOutput) -> Iterator[pa.RecordBatch]:
        if piece.part is None:
            yield from piece.held()
            return
        for index, rows in enumerate(piece.rows):
            yield self._load(piece, index).slice(0, rows)

    def _inline(self, pieces: list[TaskOutput], truncated: bool) -> ResultReport:
        batches = [batch for piece in pieces for batch in self._batches(piece)]
        if len(batches) > 1 and self._schema.columns:
            table = pa.Table.from_batches(batches, self._stored).combine_chunks()
            batches = table.to_batches()
        data = write_stream(batches, self._stored)
        self.remove()
        return self._report(Disposition.INLINE, pieces, truncated, chunks=1, data=data)

    def _store(self, pieces: list[TaskOutput], truncated: bool) -> ResultReport:
        self._prepare()
        parts = self._parts(pieces)
        limit = self._spec.chunk_limit
        report = self._report(
            Disposition.STORED,
            pieces,
            truncated,
            chunks=len(count_out(parts, limit)),
            location=self._spec.location,
        )
        manifest = Manifest(
            spark_schema=report.spark_schema,
            row_count=report.row_count,
            byte_count=report.byte_count,
            truncated=truncated,
            chunk_limit=limit,
            parts=parts,
        )
        # What failed attempts of tasks and limits have left over is not part of the result.
        with contextlib.suppress(HeadraceError):
            locations.delete_files_except(self._spec.location, {part.name for part in parts})
        with writing():
            write_manifest(self._spec.location, manifest)
        return report

    def _parts(self, pieces: list[TaskOutput]) -> list[ResultPart]:
        """The parts of all pieces. Neighbours that were held in memory share one."""
        parts: list[ResultPart] = []
        run: list[TaskOutput] = []
        for piece in [*pieces, None]:
            if piece is not None and piece.part is None:
                run += [piece] if piece.rows else []
                continue
            if run:
                parts.append(self._written_part(run, len(parts)))
                run = []
            if piece is not None:
                parts.append(ResultPart(name=str(piece.part), rows=piece.rows, bytes=piece.sizes))
        return parts

    def _written_part(self, run: list[TaskOutput], number: int) -> ResultPart:
        name = f"part-held-{number:06d}.arrow"
        file = PartFile(self._task, name)
        for piece in run:
            for batch in piece.held():
                file.write(batch)
        file.close()
        rows = [rows for piece in run for rows in piece.rows]
        return ResultPart(
            name=name, rows=rows, bytes=[size for piece in run for size in piece.sizes]
        )

    def _report(
        self,
        disposition: Disposition,
        pieces: list[TaskOutput],
        truncated: bool,
        *,
        chunks: int,
        location: str | None = None,
        data: bytes | None = None,
    ) -> ResultReport:
        return ResultReport(
            disposition=disposition,
            spark_schema=dict(self._schema.spark),
            row_count=sum(sum(piece.rows) for piece in pieces),
            byte_count=sum(sum(piece.sizes) for piece in pieces),
            truncated=truncated,
            chunks=chunks,
            location=location,
            data=data,
        )
