"""Reads a result from the store or from its files, by chunk or as one stream of record batches.

A driver has written the rows, and users' code runs in the driver. Every batch is checked before a
value is read. Whatever the manifest and the footers say, memory holds one batch of at most 1 GiB,
one footer and the manifest; the sizes of both are bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from headrace.errors import (
    ChunkNotFound,
    InvalidResult,
    ResultGone,
    ResultsUnavailable,
)
from headrace.files import locations
from headrace.model.result import Disposition, GoneReason, ResultInfo, ResultPart
from headrace.results.arrow_messages import BatchFile, read_stream
from headrace.results.manifest import convert_read_errors, read_manifest
from headrace.results.schema import Schema, parse_schema

_ENDS_OF_HOLDERS = {
    GoneReason.DRIVER_LOST: "the driver was lost",
    GoneReason.SESSION_CLOSED: "the session was closed",
    GoneReason.SESSION_FAILED: "the session failed",
}
MAX_PAGE_ROWS = 100_000
"""Largest number of rows of a range that a client reads."""
_CACHED_BATCHES = 100_000
"""Batches of the manifests that are kept in memory."""


class Rows(Protocol):
    """The rows of one result. Batches have the stored schema (`headrace.results.layout`)."""

    @property
    def schema(self) -> Schema:
        """The columns, parsed from Spark's schema."""

    @property
    def chunks(self) -> int:
        """Number of chunks, at least 1."""

    @property
    def row_count(self) -> int:
        """Number of rows, without trust in the report of the driver."""

    def chunk(self, number: int) -> Iterator[pa.RecordBatch]:
        """Return the batches of one chunk. The first chunk has the number 0.

        Raises ChunkNotFound at once. The iterator raises ResultGone if the files have been deleted,
        ResultsUnavailable if they cannot be read, and InvalidResult if their content is not valid.
        """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches in order, with one batch in memory at a time.

        Raises the errors of `chunk`.
        """

    def select(self, rows: RowRange) -> Iterator[pa.RecordBatch]:
        """Yield these rows, without the batches before and after them. No batch is empty.

        Rows behind the last one are left out. Raises the errors of `batches`.
        """


@dataclass(frozen=True, slots=True)
class RowRange:
    """A range of the rows of a result."""

    offset: int
    """Position of the first row, from 0."""
    limit: int
    """Largest number of rows."""

    @property
    def end(self) -> int:
        """Position behind the last row."""
        return self.offset + self.limit


Selection = int | RowRange | None
"""The rows that a request reads: those of a chunk, a range of rows, or (None) all rows."""


def open_rows(info: ResultInfo, inline: bytes | None) -> Rows:
    """Return the rows of a result.

    Args:
        info: Description of the result, from the store.
        inline: Arrow IPC stream of an inline result, from the store; None for a stored result.

    Raises:
        ResultGone: The rows or the manifest have been deleted.
        ResultsUnavailable: The manifest cannot be read.
        InvalidResult: The schema or the manifest is not valid.
    """
    if info.gone:
        raise build_gone(info)
    schema = parse_schema(info.spark_schema)
    if info.disposition is Disposition.INLINE:
        if inline is None:
            raise build_gone(info)
        return InlineRows(schema, info.row_count, inline)
    if info.disposition is not Disposition.STORED or info.location is None:
        raise ResultsUnavailable(
            f"The rows are kept as {info.disposition!r}, which this version cannot read.",
            hint="read them from a node of a newer version",
        )
    return StoredRows(schema, info.location)


def build_gone(info: ResultInfo) -> ResultGone:
    """Build the error that says why the rows of a result are gone."""
    if info.gone_reason in _ENDS_OF_HOLDERS:
        return ResultGone(
            "The rows of the result were in the memory of a driver, and are gone:"
            f" {_ENDS_OF_HOLDERS[info.gone_reason]}.",
            hint="Submit the statement again. The disposition `stored` keeps rows that outlive the"
            " driver.",
        )
    return ResultGone(
        f"The rows of the result were kept until {info.expires_at:%Y-%m-%d %H:%M:%S} UTC and are"
        " deleted.",
        hint="Submit the statement again. The setting results.retention says how long rows are"
        " kept.",
    )


def select_batches(rows: Rows, selection: Selection) -> Iterator[pa.RecordBatch]:
    """Return the batches of a chunk, of a range of rows, or of the whole result.

    Raises ChunkNotFound and the errors of `Rows.chunk` before the first batch.
    """
    if isinstance(selection, RowRange):
        return rows.select(selection)
    return rows.batches() if selection is None else rows.chunk(selection)


def count_rows(rows: Rows, selection: Selection) -> int | None:
    """Return how many rows a request reads; None: not known before they are read."""
    if isinstance(selection, RowRange):
        return max(0, min(rows.row_count, selection.end) - selection.offset)
    return rows.row_count if selection is None or rows.chunks == 1 else None


def find_next_offset(rows: Rows, selected: RowRange) -> int | None:
    """Return the position of the row that follows a range, or None if there is none."""
    return selected.end if selected.end < rows.row_count else None


def cut_batches(
    batches: Iterable[pa.RecordBatch], rows: RowRange, *, start: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, from batches that begin at the row `start` or before it."""
    for batch in batches:
        first, start = max(rows.offset - start, 0), start + batch.num_rows
        if first < batch.num_rows:
            yield batch.slice(first, rows.end - (start - batch.num_rows) - first)
        if start >= rows.end:
            return


class InlineRows:
    """Rows of an Arrow IPC stream. Inline results are small: they have a single chunk."""

    def __init__(self, schema: Schema, row_count: int, data: bytes) -> None:
        self.schema = schema
        # `check_report` has counted the rows.
        self.row_count = row_count
        self.chunks = 1
        self._data = data

    def chunk(self, number: int) -> Iterator[pa.RecordBatch]:
        check_chunk_number(number, self.chunks)
        return self.batches()

    def batches(self) -> Iterator[pa.RecordBatch]:
        return read_stream(self._data, self.schema)

    def select(self, rows: RowRange) -> Iterator[pa.RecordBatch]:
        return cut_batches(self.batches(), rows)


class BatchReference(NamedTuple):
    """One record batch of a stored result."""

    part: str
    """File name of the part."""
    position: int
    """Position of the batch in its part, from 0."""
    rows: int
    """Number of first rows of the batch that belong to the result."""
    part_batches: int
    """Number of batches of the part that belong to the result."""


def group_into_chunks(parts: Iterable[ResultPart], limit: int) -> list[list[BatchReference]]:
    """Assign the batches of all parts, in order, to chunks of at most `limit` bytes.

    A batch that is larger than the limit becomes a chunk of its own. A result without batches has
    one empty chunk.
    """
    chunks: list[list[BatchReference]] = [[]]
    chunk_bytes = 0
    for part in parts:
        for reference, size in zip(list_batches([part]), part.bytes, strict=True):
            if chunks[-1] and chunk_bytes + size > limit:
                chunks.append([])
                chunk_bytes = 0
            chunks[-1].append(reference)
            chunk_bytes += size
    return chunks


def list_batches(parts: Iterable[ResultPart]) -> list[BatchReference]:
    """Return the batches of all parts, in order."""
    return [
        BatchReference(part.name, position, rows, len(part.rows))
        for part in parts
        for position, rows in enumerate(part.rows)
    ]


class StoredRows:
    """Rows of the parts that a manifest lists."""

    def __init__(self, schema: Schema, location: str) -> None:
        self.schema = schema
        self._location = location
        self._chunks = _chunk_cache.load(location)
        self.chunks = len(self._chunks)

    @property
    def row_count(self) -> int:
        # `read_batches` yields as many rows of each batch.
        return sum(reference.rows for reference in self.references)

    @property
    def references(self) -> list[BatchReference]:
        """The batches, in order."""
        return list(chain.from_iterable(self._chunks))

    def chunk(self, number: int) -> Iterator[pa.RecordBatch]:
        check_chunk_number(number, self.chunks)
        return self._read(self._chunks[number])

    def batches(self) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks:
            yield from self._read(chunk)

    def select(self, rows: RowRange) -> Iterator[pa.RecordBatch]:
        start, end, chosen = 0, 0, []
        for reference in chain.from_iterable(self._chunks):
            if end >= rows.end:
                break
            end += reference.rows
            if end > rows.offset:
                chosen.append(reference)
            else:
                start = end
        return cut_batches(self._read(chosen), rows, start=start)

    def _read(self, references: Iterable[BatchReference]) -> Iterator[pa.RecordBatch]:
        return read_batches(self._location, self.schema, references)


def read_batches(
    location: str, schema: Schema, references: Iterable[BatchReference]
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a stored result. Raises the errors of `Rows.chunk`."""
    name, part = None, None
    try:
        for reference in references:
            if reference.part != name:
                if part is not None:
                    part.close()
                name, part = reference.part, _open_part(location, schema, reference)
            assert part is not None
            with convert_read_errors(location, reference.part):
                batch = part.batches.read_batch(reference.position)
                if batch.num_rows < reference.rows:
                    raise InvalidResult("A record batch has fewer rows than the manifest.")
            yield batch.slice(0, reference.rows)
    finally:
        if part is not None:
            part.close()


def _open_part(location: str, schema: Schema, reference: BatchReference) -> _OpenPart:
    with convert_read_errors(location, reference.part):
        file = locations.open_driver_file(location, reference.part)
        try:
            return _OpenPart(file, BatchFile(file, schema, reference.part_batches))
        except BaseException:
            file.close()
            raise


class _OpenPart(NamedTuple):
    """An open part and the batches in it."""

    file: Any
    batches: BatchFile

    def close(self) -> None:
        self.file.close()


def check_chunk_number(number: int, chunks: int) -> None:
    """Raise ChunkNotFound unless a result with so many chunks has this one."""
    if not 0 <= number < chunks:
        raise ChunkNotFound(
            f"Chunk {number} does not exist: this result has chunks 0 to {chunks - 1}."
        )


Chunks = tuple[tuple[BatchReference, ...], ...]


class _ChunkCache:
    """The chunks of results that were read last. A manifest never changes, so it is read once."""

    def __init__(self) -> None:
        self._chunks: OrderedDict[str, tuple[Chunks, int]] = OrderedDict()
        self._batch_count = 0
        self._lock = Lock()

    def load(self, location: str) -> Chunks:
        """Return the chunks of a stored result. Raise the errors of `read_manifest`."""
        with self._lock:
            if location in self._chunks:
                self._chunks.move_to_end(location)
                return self._chunks[location][0]
        manifest = read_manifest(location)
        groups = group_into_chunks(manifest.parts, manifest.chunk_limit)
        chunks = tuple(tuple(group) for group in groups)
        count = 1 + sum(map(len, chunks))
        with self._lock:
            if count <= _CACHED_BATCHES and location not in self._chunks:
                self._chunks[location] = (chunks, count)
                self._batch_count += count
            while self._batch_count > _CACHED_BATCHES:
                self._batch_count -= self._chunks.popitem(last=False)[1][1]
        return chunks


_chunk_cache = _ChunkCache()
