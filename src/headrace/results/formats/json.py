"""JSON: `{"schema": […], "rows": [[…], …], "chunk": n, "next_chunk": m}`. docs/results.md has the
form of each type."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headrace.results.formats.select import chosen
from headrace.results.reader import Rows
from headrace.results.tokens import row_texts

MEDIA_TYPE = "application/json"


def write(rows: Rows, chunk: int | None, *, plain_numbers: bool = False) -> Iterator[bytes]:
    """The JSON document of one chunk, or of the whole result, where `chunk` is null.

    bigint and decimal are strings, as many readers of JSON take all numbers for doubles; with
    `plain_numbers` they are numbers where a double holds them exactly. Raises as `Rows` does.
    """
    batches = chosen(rows, chunk)
    return _document(rows, chunk, batches, plain_numbers=plain_numbers)


def write_rows(rows: Rows, chunk: int | None, *, plain_numbers: bool = False) -> Iterator[bytes]:
    """The list of rows alone: `[[…], …]`. Raises as `Rows` does."""
    return _lists(rows, chosen(rows, chunk), plain_numbers=plain_numbers)


def _document(
    rows: Rows, chunk: int | None, batches: Iterator[pa.RecordBatch], *, plain_numbers: bool
) -> Iterator[bytes]:
    following = chunk + 1 if chunk is not None and chunk + 1 < rows.chunks else None
    yield f'{{"schema":{json.dumps(rows.schema.described())},"rows":'.encode()
    yield from _lists(rows, batches, plain_numbers=plain_numbers)
    yield f',"chunk":{json.dumps(chunk)},"next_chunk":{json.dumps(following)}}}'.encode()


def _lists(
    rows: Rows, batches: Iterator[pa.RecordBatch], *, plain_numbers: bool
) -> Iterator[bytes]:
    kinds = [column.type for column in rows.schema.columns]
    yield b"["
    separator = b""
    for batch in batches:
        if batch.num_rows:
            yield separator
            yield _joined(row_texts(batch, kinds, plain_numbers=plain_numbers))
            separator = b","
    yield b"]"


def _joined(texts: pa.Array) -> bytes:
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    content: bytes = pc.binary_join(lists, ",")[0].as_buffer().to_pybytes()
    return content
