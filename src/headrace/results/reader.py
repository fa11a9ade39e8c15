"""Reading a result back, inline or stored, by chunk or as one stream of record batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa
from pydantic import ValidationError

from headrace.errors import ChunkNotFound, HeadraceError, ResultGone, ResultsUnavailable
from headrace.model.result import Disposition, Manifest, ResultInfo
from headrace.results.chunks import count_out
from headrace.results.layout import stored_schema
from headrace.results.schema import Schema, parse_schema
from headrace.storage import locations

MANIFEST = "manifest.json"


class Rows(Protocol):
    """The rows of one result. Batches are in the stored form (`headrace.results.layout`)."""

    @property
    def schema(self) -> Schema:
        """The columns, from Spark's schema."""

    @property
    def chunks(self) -> int:
        """How many chunks there are: at least one."""

    def chunk(self, number: int) -> list[pa.RecordBatch]:
        """The batches of one chunk, counted from 0.

        Raises ChunkNotFound, ResultGone when the files are no longer there, ResultsUnavailable when
        they cannot be read.
        """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All batches in order, one in memory at a time. Raises as `chunk` does."""


def open_rows(info: ResultInfo, inline: bytes | None) -> Rows:
    """The rows of a result; `inline` is the data that the store keeps for it.

    Raises ResultGone when they are no longer kept, ResultsUnavailable when the manifest cannot be
    read.
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


class InlineRows:
    """Rows of an Arrow IPC stream: one chunk, for inline results are small."""

    def __init__(self, schema: Schema, data: bytes) -> None:
        self.schema = schema
        self.chunks = 1
        self._data = data

    def chunk(self, number: int) -> list[pa.RecordBatch]:
        _check(number, self.chunks)
        return list(self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(self._data) as stream:
            yield from stream


class StoredRows:
    """Rows of the parts that a manifest lists."""

    def __init__(self, schema: Schema, location: str) -> None:
        self.schema = schema
        self._location = location
        self._chunks = _chunks(location)
        self.chunks = len(self._chunks)

    def chunk(self, number: int) -> list[pa.RecordBatch]:
        _check(number, self.chunks)
        return list(self._read(self._chunks[number]))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for chunk in self._chunks:
            yield from self._read(chunk)

    def _read(self, chunk: tuple[tuple[str, int, int], ...]) -> Iterator[pa.RecordBatch]:
        expected = stored_schema(self.schema)
        name, file, reader = None, None, None
        try:
            for part, index, rows in chunk:
                if part != name:
                    if file is not None:
                        file.close()
                    name, (file, reader) = part, self._open(part)
                with _trouble(self._location, part):
                    assert reader is not None
                    batch = reader.get_batch(index)
                if not batch.schema.equals(expected) or batch.num_rows < rows:
                    raise ResultsUnavailable(f"{self._location}: {part} is not what was written")
                yield batch.slice(0, rows)
        finally:
            if file is not None:
                file.close()

    def _open(self, part: str) -> tuple[Any, pa.RecordBatchFileReader]:
        with _trouble(self._location, part):
            file = locations.open_input_file(locations.join(self._location, part))
            try:
                return file, pa.ipc.open_file(file)
            except BaseException:
                file.close()
                raise


def _check(number: int, chunks: int) -> None:
    if not 0 <= number < chunks:
        raise ChunkNotFound(f"there is no chunk {number}: this result has chunks 0 to {chunks - 1}")


@lru_cache(maxsize=256)
def _chunks(location: str) -> tuple[tuple[tuple[str, int, int], ...], ...]:
    """The chunks of a stored result. A manifest never changes, so it is read once and kept."""
    manifest = read_manifest(location)
    return tuple(tuple(chunk) for chunk in count_out(manifest.parts, manifest.chunk_limit))


def read_manifest(location: str) -> Manifest:
    """The manifest of a stored result. Raises ResultGone, ResultsUnavailable."""
    with _trouble(location, MANIFEST):
        content = locations.read(locations.join(location, MANIFEST))
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise ResultsUnavailable(f"{location}: {MANIFEST} is not valid") from error


def write_manifest(location: str, manifest: Manifest) -> None:
    """Makes a result readable: the last file of it to be written."""
    # Not the model's own JSON writer: it refuses lone surrogates, which Spark allows in names.
    content = json.dumps(manifest.model_dump(mode="python"))
    locations.write(locations.join(location, MANIFEST), content.encode())


@contextmanager
def _trouble(location: str, name: str) -> Iterator[None]:
    """What reading can meet, as Headrace's errors."""
    try:
        yield
    except FileNotFoundError as error:
        raise ResultGone(f"the result is no longer kept: {location} has no {name}") from error
    except HeadraceError:
        raise
    except Exception as error:
        raise ResultsUnavailable(f"cannot read {name} in {location}: {error}") from error
