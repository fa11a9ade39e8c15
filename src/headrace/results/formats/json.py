"""JSON: `{"schema": […], "rows": [[…], …], "chunk": n, "next_chunk": m}`.

A range of rows has `offset` and `next_offset` in place of `chunk` and `next_chunk`.

docs/guides/results.md lists the JSON form of each type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headrace.results.json_encoding import NumberFormat, encode_rows
from headrace.results.reader import (
    RowRange,
    Rows,
    Selection,
    find_next_offset,
    select_batches,
)


def write(
    rows: Rows, selection: Selection, *, numbers: NumberFormat = NumberFormat.TEXT
) -> Iterator[bytes]:
    """Write the document of the selected rows.

    Raises the errors of `Rows`, and FormatCannotHold for huge field names.
    """
    batches = select_batches(rows, selection)
    return _write_document(rows, selection, batches, numbers=numbers)


def write_rows(
    rows: Rows, selection: Selection, *, numbers: NumberFormat = NumberFormat.TEXT
) -> Iterator[bytes]:
    """Write the list of rows without the document: `[[…], …]`. Raises the errors of `Rows`."""
    return _write_lists(rows, select_batches(rows, selection), numbers=numbers)


def _write_document(
    rows: Rows, selection: Selection, batches: Iterator[pa.RecordBatch], *, numbers: NumberFormat
) -> Iterator[bytes]:
    yield f'{{"schema":{json.dumps(rows.schema.describe())},"rows":'.encode()
    yield from _write_lists(rows, batches, numbers=numbers)
    position = ",".join(f'"{name}":{json.dumps(n)}' for name, n in _position(rows, selection))
    yield f",{position}}}".encode()


def _position(rows: Rows, selection: Selection) -> Iterator[tuple[str, int | None]]:
    """Yield the position of the selected rows and of the following ones, with their names."""
    if isinstance(selection, RowRange):
        yield "offset", selection.offset
        yield "next_offset", find_next_offset(rows, selection)
        return
    following = None if selection is None else selection + 1
    yield "chunk", selection
    yield "next_chunk", following if following is not None and following < rows.chunks else None


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
