"""Results that a node makes itself: a few rows of text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.model.result import Disposition, ResultReport
from headrace.results.batches import size
from headrace.results.layout import stored_schema
from headrace.results.schema import parse_schema


def make_text_result(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> ResultReport:
    """An inline result whose columns are all strings."""
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in columns
    ]
    spark_schema = {"type": "struct", "fields": fields}
    schema = stored_schema(parse_schema(spark_schema))
    values = [pa.array([row[at] for row in rows], pa.string()) for at in range(len(columns))]
    batch = pa.record_batch(values, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return ResultReport(
        disposition=Disposition.INLINE,
        spark_schema=spark_schema,
        row_count=len(rows),
        byte_count=size(batch),
        truncated=False,
        chunks=1,
        data=sink.getvalue().to_pybytes(),
    )
