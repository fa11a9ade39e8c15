"""JSON: `{"schema": […], "rows": [[…], …], "chunk": n, "next_chunk": m}`.

docs/guides/results.md lists the JSON form of each type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headrace.results.json_encoding import NumberFormat, encode_rows
from headrace.results.reader import Rows, select_batches


def write(
    rows: Rows, chunk: int | None, *, numbers: NumberFormat = NumberFormat.TEXT
) -> Iterator[bytes]:
    """Write the document of one chunk, or of the whole result if `chunk` is None.

    Raises the errors of `Rows`, and FormatCannotHold for huge field names.
    """
    batches = select_batches(rows, chunk)
    return _write_document(rows, chunk, batches, numbers=numbers)


def write_rows(
    rows: Rows, chunk: int | None, *, numbers: NumberFormat = NumberFormat.TEXT
) -> Iterator[bytes]:
    """Write the list of rows without the document: `[[…], …]`. Raises the errors of `Rows`."""
    return _write_lists(rows, select_batches(rows, chunk), numbers=numbers)


def _write_document(
    rows: Rows, chunk: int | None, batches: Iterator[pa.RecordBatch], *, numbers: NumberFormat
) -> Iterator[bytes]:
    next_chunk = chunk + 1 if chunk is not None and chunk + 1 < rows.chunks else None
    yield f'{{"schema":{json.dumps(rows.schema.describe())},"rows":'.encode()
    yield from _write_lists(rows, batches, numbers=numbers)
    yield f',"chunk":{json.dumps(chunk)},"next_chunk":{json.dumps(next_chunk)}}}'.encode()


def _write_lists(
    rows: Rows, batches: Iterator[pa.RecordBatch], *, numbers: NumberFormat
) -> Iterator[bytes]:
    types = [column.type for column in rows.schema.columns]
    yield b"["
    separator = b""
    for batch in batches:
        if batch.num_rows:
            yield separator
            yield _join_with_commas(encode_rows(batch, types, numbers=numbers))
            separator = b","
    yield b"]"


def _join_with_commas(texts: pa.Array) -> bytes:
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    content: bytes = pc.binary_join(lists, ",")[0].as_buffer().to_pybytes()
    return content
