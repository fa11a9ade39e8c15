"""Results of statements that a node executes itself: a few rows of text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.model.result import Disposition, ResultReport
from headrace.results.batches import batch_bytes, serialize_batches
from headrace.results.layout import build_stored_schema
from headrace.results.schema import parse_schema


def make_text_result(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> ResultReport:
    """Return an inline result in which every column is a string."""
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in columns
    ]
    spark_schema = {"type": "struct", "fields": fields}
    schema = build_stored_schema(parse_schema(spark_schema))
    values = [pa.array([row[index] for row in rows], pa.string()) for index in range(len(columns))]
    batch = pa.record_batch(values, schema=schema)
    return ResultReport(
        disposition=Disposition.INLINE,
        spark_schema=spark_schema,
        row_count=len(rows),
        byte_count=batch_bytes(batch),
        truncated=False,
        chunks=1,
        data=serialize_batches([batch], schema),
    )
