"""Arrow IPC stream with the real column names, which may repeat.

The schema's metadata contains Spark's schema as JSON under `spark.schema`. Fields of Spark types
that Arrow lacks have the Spark type in their metadata under `spark.type`. Their values are:

- year-month intervals: int32, the number of months;
- calendar intervals: structs of months, days and microseconds;
- variants: structs of the binary value and metadata;
- geometries and geographies: structs of srid and WKB.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from headrace.results.layout import build_client_schema
from headrace.results.reader import Rows, Selection, select_batches

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def write(rows: Rows, selection: Selection) -> Iterator[bytes]:
    """Write the selected rows. Raises the errors of `Rows`."""
    return _write_messages(rows, select_batches(rows, selection))


def _write_messages(rows: Rows, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    schema = build_client_schema(rows.schema, json.dumps(rows.schema.spark))
    yield schema.serialize().to_pybytes()
    for batch in batches:
        # The message of a batch contains no names, so stored batches fit the client schema.
        yield batch.serialize().to_pybytes()
    yield _END_OF_STREAM
