"""An Arrow IPC stream with the real column names, which may repeat.

Spark's schema is in the schema's metadata under `spark.schema`, as JSON. Types that Arrow has no
like of carry their Spark type in the field's metadata under `spark.type`: year-month intervals are
int32 (months), calendar intervals structs of months, days and microseconds, variants structs of
their binary value and metadata, geometries structs of srid and wkb.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from headrace.results.formats.select import select_batches
from headrace.results.layout import shown_schema
from headrace.results.reader import Rows

MEDIA_TYPE = "application/vnd.apache.arrow.stream"

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def write(rows: Rows, chunk: int | None) -> Iterator[bytes]:
    """The stream of one chunk, or of the whole result. Raises as `Rows` does."""
    return _messages(rows, select_batches(rows, chunk))


def _messages(rows: Rows, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    schema = shown_schema(rows.schema, json.dumps(rows.schema.spark))
    yield schema.serialize().to_pybytes()
    for batch in batches:
        # A message has no names in it: those of the stored form need no relabelling.
        yield batch.serialize().to_pybytes()
    yield _END_OF_STREAM
