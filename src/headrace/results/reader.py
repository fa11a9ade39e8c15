"""Reads a result, inline or stored, by chunk or as one stream of record batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pydantic import ValidationError

from headrace.errors import ChunkNotFound, HeadraceError, ResultGone, ResultsUnavailable
from headrace.model.result import Disposition, Manifest, ResultInfo, ResultPart
from headrace.results.layout import build_stored_schema
from headrace.results.schema import Schema, parse_schema
from headrace.storage import locations

_MANIFEST_NAME = "manifest.json"


class Rows(Protocol):
    """The rows of one result. Batches have the stored schema (`headrace.results.layout`)."""

    @property
    def schema(self) -> Schema:
        """The columns, parsed from Spark's schema."""

    @property
    def chunks(self) -> int:
        """Number of chunks, at least 1."""

    def chunk(self, number: int) -> list[pa.RecordBatch]:
        """Return the batches of one chunk. The first chunk has the number 0.

        Raises ChunkNotFound, ResultGone if the files have been deleted, and ResultsUnavailable if
        they cannot be read.
        """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches in order, with one batch in memory at a time.

        Raises ResultGone and ResultsUnavailable as `chunk` does.
        """


def open_rows(info: ResultInfo, inline: bytes | None) -> Rows:
    """Return the rows of a result.

    Args:
        info: Description of the result, from the store.
        inline: Arrow IPC stream of an inline result, from the store; None for a stored result.

    Raises:
        ResultGone: The rows or the manifest have been deleted.
        ResultsUnavailable: The manifest cannot be read.
    """
    if info.gone:
        raise ResultGone
    schema = parse_schema(info.spark_schema)
    if info.disposition is Disposition.INLINE:
        if inline is None:
            raise ResultGone
        return InlineRows(schema, inline)
    assert info.location is not None
    return StoredRows(schema, info.location)


def select_batches(rows: Rows, chunk: int | None) -> Iterator[pa.RecordBatch]:
    """Return the batches of one chunk, or of the whole result if `chunk` is None.

    Raises ChunkNotFound and the errors of `Rows.chunk` before the first batch.
    """
    return rows.batches() if chunk is None else iter(rows.chunk(chunk))


class InlineRows:
    """Rows of an Arrow IPC stream. Inline results are small: they have a single chunk."""

    def __init__(self, schema: Schema, data: bytes) -> None:
        self.schema = schema
        self.chunks = 1
        self._data = data

    def chunk(self, number: int) -> list[pa.RecordBatch]:
        _check_chunk_number(number, self.chunks)
        return list(self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(self._data) as stream:
            yield from stream


class BatchReference(NamedTuple):
    """One record batch of a stored result."""

    part: str
    """File name of the part."""
    position: int
    """Position of the batch in its part, from 0."""
    rows: int
    """Number of first rows of the batch that belong to the result."""


def group_into_chunks(parts: Iterable[ResultPart], limit: int) -> list[list[BatchReference]]:
    """Assign the batches of all parts, in order, to chunks of at most `limit` bytes.

    A batch that is larger than the limit becomes a chunk of its own. A result without batches has
    one empty chunk.
    """
    chunks: list[list[BatchReference]] = [[]]
    chunk_bytes = 0
    for part in parts:
        for position, (rows, size) in enumerate(zip(part.rows, part.bytes, strict=True)):
            if chunks[-1] and chunk_bytes + size > limit:
                chunks.append([])
                chunk_bytes = 0
            chunks[-1].append(BatchReference(part.name, position, rows))
            chunk_bytes += size
    return chunks


class StoredRows:
    """Rows of the parts that a manifest lists."""

    def __init__(self, schema: Schema, location: str) -> None:
        self.schema = schema
        self._location = location
        self._chunks = _load_chunks(location)
        self.chunks = len(self._chunks)

    def chunk(self, number: int) -> list[pa.RecordBatch]:
        _check_chunk_number(number, self.chunks)
        return list(self._read(self._chunks[number]))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks:
            yield from self._read(chunk)

    def _read(self, chunk: tuple[BatchReference, ...]) -> Iterator[pa.RecordBatch]:
        expected = build_stored_schema(self.schema)
        name, file, reader = None, None, None
        try:
            for part, position, rows in chunk:
                if part != name:
                    if file is not None:
                        file.close()
                    name, (file, reader) = part, self._open(part)
                with _convert_read_errors(self._location, part):
                    assert reader is not None
                    batch = reader.get_batch(position)
                if not batch.schema.equals(expected) or batch.num_rows < rows:
                    raise ResultsUnavailable(
                        f"Cannot read {part} in {self._location}: its content does not match the"
                        " manifest."
                    )
                yield batch.slice(0, rows)
        finally:
            if file is not None:
                file.close()

    def _open(self, part: str) -> tuple[Any, pa.RecordBatchFileReader]:
        with _convert_read_errors(self._location, part):
            file = locations.open_input_file(locations.join(self._location, part))
            try:
                return file, pa.ipc.open_file(file)
            except BaseException:
                file.close()
                raise


def _check_chunk_number(number: int, chunks: int) -> None:
    if not 0 <= number < chunks:
        raise ChunkNotFound(
            f"Chunk {number} does not exist: this result has chunks 0 to {chunks - 1}."
        )


@lru_cache(maxsize=256)
def _load_chunks(location: str) -> tuple[tuple[BatchReference, ...], ...]:
    """Return the chunks of a stored result. A manifest never changes, so it is read once."""
    manifest = read_manifest(location)
    return tuple(tuple(chunk) for chunk in group_into_chunks(manifest.parts, manifest.chunk_limit))


def read_manifest(location: str) -> Manifest:
    """Return the manifest of a stored result.

    Raises ResultGone if it has been deleted, and ResultsUnavailable if it cannot be read.
    """
    with _convert_read_errors(location, _MANIFEST_NAME):
        content = locations.read(locations.join(location, _MANIFEST_NAME))
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise ResultsUnavailable(
            f"Cannot read {_MANIFEST_NAME} in {location}: its content is not valid."
        ) from error


def write_manifest(location: str, manifest: Manifest) -> None:
    """Write the manifest, the last file of a result. It makes the result readable.

    Raises the file system's own errors.
    """
    # Pydantic's JSON writer refuses lone surrogates, which Spark allows in names.
    content = json.dumps(manifest.model_dump(mode="python"))
    locations.write(locations.join(location, _MANIFEST_NAME), content.encode())


@contextmanager
def _convert_read_errors(location: str, name: str) -> Iterator[None]:
    """Raise ResultGone for a missing file, and ResultsUnavailable for other read errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise ResultGone(f"The result is no longer kept: {location} has no {name}") from error
    except HeadraceError:
        raise
    except Exception as error:
        raise ResultsUnavailable(f"Cannot read {name} in {location}: {error}") from error
