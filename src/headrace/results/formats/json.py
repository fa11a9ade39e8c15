"""JSON: `{"schema": […], "rows": [[…], …], "chunk": n, "next_chunk": m}`. docs/results.md has the
form of each type."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headrace.results.formats.select import select_batches
from headrace.results.json_encoding import NumberFormat, encode_rows
from headrace.results.reader import Rows

MEDIA_TYPE = "application/json"


def write(
    rows: Rows, chunk: int | None, *, numbers: NumberFormat = NumberFormat.TEXT
) -> Iterator[bytes]:
    """The JSON document of one chunk, or of the whole result, where `chunk` is null.

    Raises as `Rows` does.
    """
    batches = select_batches(rows, chunk)
    return _document(rows, chunk, batches, numbers=numbers)


def write_rows(
    rows: Rows, chunk: int | None, *, numbers: NumberFormat = NumberFormat.TEXT
) -> Iterator[bytes]:
    """The list of rows alone: `[[…], …]`. Raises as `Rows` does."""
    return _lists(rows, select_batches(rows, chunk), numbers=numbers)


def _document(
    rows: Rows, chunk: int | None, batches: Iterator[pa.RecordBatch], *, numbers: NumberFormat
) -> Iterator[bytes]:
    following = chunk + 1 if chunk is not None and chunk + 1 < rows.chunks else None
    yield f'{{"schema":{json.dumps(rows.schema.described())},"rows":'.encode()
    yield from _lists(rows, batches, numbers=numbers)
    yield f',"chunk":{json.dumps(chunk)},"next_chunk":{json.dumps(following)}}}'.encode()


def _lists(
    rows: Rows, batches: Iterator[pa.RecordBatch], *, numbers: NumberFormat
) -> Iterator[bytes]:
    kinds = [column.type for column in rows.schema.columns]
    yield b"["
    separator = b""
    for batch in batches:
        if batch.num_rows:
            yield separator
            yield _joined(encode_rows(batch, kinds, numbers=numbers))
            separator = b","
    yield b"]"


def _joined(texts: pa.Array) -> bytes:
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    content: bytes = pc.binary_join(lists, ",")[0].as_buffer().to_pybytes()
    return content
