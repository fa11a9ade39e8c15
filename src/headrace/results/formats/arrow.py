"""Arrow IPC, as a stream or as a file, with the real column names, which may repeat.

The schema's metadata contains Spark's schema as JSON under `spark.schema`. Fields of Spark types
that Arrow lacks have the Spark type in their metadata under `spark.type`. Their values are:

- year-month intervals: int32, the number of months;
- calendar intervals: structs of months, days and microseconds;
- variants: structs of the binary value and metadata;
- geometries and geographies: structs of srid and WKB.

A stream that begins while the statement runs states how the result ends: its last record batch has
no rows, and custom metadata. `headrace.state` is `success`, and `headrace.row_count` the number of
rows. Otherwise, `headrace.state` is `failed`, `cancelled` or `timeout`, or `incomplete` if the rows
are not those of the result; `headrace.code` and `headrace.message` say why, and the stream has no
end-of-stream marker.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from headrace.results.batches import apply_schema
from headrace.results.formats import StreamBuffer
from headrace.results.layout import build_client_schema, build_stored_schema
from headrace.results.reader import Rows, Selection, select_batches
from headrace.results.schema import Schema

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def write(rows: Rows, selection: Selection) -> Iterator[bytes]:
    """Write the selected rows as a stream. Raises the errors of `Rows`."""
    return _write_messages(rows, select_batches(rows, selection))


def write_file(rows: Rows, selection: Selection) -> Iterator[bytes]:
    """Write the selected rows as a file, whose footer names the place of each batch.

    Raises the errors of `Rows`.
    """
    return _write_file(rows, select_batches(rows, selection))


def write_schema(schema: Schema) -> bytes:
    """Return the first message of a stream."""
    content: bytes = build_client_schema(schema, json.dumps(schema.spark)).serialize().to_pybytes()
    return content


def write_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield one message for each batch."""
    for batch in batches:
        # The message of a batch contains no names, so stored batches fit the client schema.
        yield batch.serialize().to_pybytes()


def write_empty_batch(schema: Schema, metadata: Mapping[str, str]) -> bytes:
    """Return the message of a batch without rows that carries custom metadata."""
    stored_schema = build_stored_schema(schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, stored_schema) as writer:
        empty = pa.RecordBatch.from_pylist([], stored_schema)
        # The first batch follows the schema, which is not part of the message.
        writer.write_batch(empty)
        start = sink.tell()
        writer.write_batch(empty, custom_metadata=dict(metadata))
        end = sink.tell()
    message: bytes = sink.getvalue()[start:end].to_pybytes()
    return message


def _write_messages(rows: Rows, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    yield write_schema(rows.schema)
    yield from write_batches(batches)
    yield END_OF_STREAM


def _write_file(rows: Rows, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    schema = build_client_schema(rows.schema, json.dumps(rows.schema.spark))
    buffer = StreamBuffer()
    with pa.ipc.new_file(pa.PythonFile(buffer, "w"), schema) as writer:
        for batch in batches:
            writer.write_batch(apply_schema(batch, schema))
            yield buffer.drain()
    yield buffer.drain()
