"""Results as a driver would have written them, made from plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.model.result import Disposition, Manifest, ResultPart, ResultReport
from headrace.results.chunks import count_out
from headrace.results.layout import stored_schema
from headrace.results.reader import write_manifest
from headrace.results.schema import parse_schema

Columns = Sequence[tuple[str, Any]]
"""Names, and types as Spark's JSON spells them, e.g. `integer`, `long`, `decimal(10,2)`."""


def spark_schema(columns: Columns) -> dict[str, Any]:
    """Spark's JSON of these columns."""
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns
        ],
    }


def inline_result(
    columns: Columns, rows: Sequence[Sequence[Any]], *, truncated: bool = False
) -> ResultReport:
    """A result in the store's row."""
    batch = _batch(columns, rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return ResultReport(
        disposition=Disposition.INLINE,
        spark_schema=spark_schema(columns),
        row_count=len(rows),
        byte_count=batch.nbytes,
        truncated=truncated,
        chunks=1,
        data=sink.getvalue().to_pybytes(),
    )


def stored_result(
    place: Path, columns: Columns, batches: Iterable[Sequence[Sequence[Any]]], *, chunk_limit: int
) -> ResultReport:
    """A result in a folder, one part a batch."""
    place.mkdir(parents=True)
    parts, count, size = [], 0, 0
    for number, rows in enumerate(batches):
        batch = _batch(columns, rows)
        name = f"part-{number:05}.arrow"
        with pa.ipc.new_file(str(place / name), batch.schema) as writer:
            writer.write_batch(batch)
        parts.append(ResultPart(name=name, rows=[len(rows)], bytes=[batch.nbytes]))
        count += len(rows)
        size += batch.nbytes
    manifest = Manifest(
        spark_schema=spark_schema(columns),
        row_count=count,
        byte_count=size,
        truncated=False,
        chunk_limit=chunk_limit,
        parts=parts,
    )
    write_manifest(str(place), manifest)
    return ResultReport(
        disposition=Disposition.STORED,
        spark_schema=manifest.spark_schema,
        row_count=count,
        byte_count=size,
        truncated=False,
        chunks=len(count_out(parts, chunk_limit)),
        location=str(place),
    )


def _batch(columns: Columns, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    schema = stored_schema(parse_schema(spark_schema(columns)))
    arrays = [
        pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)
    ]
    return pa.record_batch(arrays, schema=schema)
