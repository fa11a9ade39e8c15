"""Results with the content and files that a driver would report, built without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.model.result import Disposition, Manifest, ResultPart, ResultReport
from headrace.results.batches import serialize_batches
from headrace.results.layout import build_stored_schema
from headrace.results.manifest import write_manifest
from headrace.results.reader import group_into_chunks
from headrace.results.schema import parse_schema

Columns = Sequence[tuple[str, Any]]
"""Names of columns and their types in Spark's JSON, for example `long` or `decimal(10,2)`."""


def spark_schema(columns: Columns) -> dict[str, Any]:
    """Return Spark's JSON of a schema."""
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns
        ],
    }


def inline_result(
    columns: Columns, rows: Sequence[Sequence[Any]], *, truncated: bool = False
) -> ResultReport:
    """Return the report of an inline result."""
    batch = _make_batch(columns, rows)
    return ResultReport(
        disposition=Disposition.INLINE,
        spark_schema=spark_schema(columns),
        row_count=len(rows),
        byte_count=batch.nbytes,
        truncated=truncated,
        chunks=1,
        data=serialize_batches([batch], batch.schema),
    )


def stored_result(
    folder: Path, columns: Columns, batches: Iterable[Sequence[Sequence[Any]]], *, chunk_limit: int
) -> ResultReport:
    """Write a stored result to a folder, with one part per batch, and return its report."""
    folder.mkdir(parents=True)
    parts, row_count, byte_count = [], 0, 0
    for number, rows in enumerate(batches):
        batch = _make_batch(columns, rows)
        name = f"part-{number:05}.arrow"
        with pa.ipc.new_file(str(folder / name), batch.schema) as writer:
            writer.write_batch(batch)
        parts.append(ResultPart(name=name, rows=[len(rows)], bytes=[batch.nbytes]))
        row_count += len(rows)
        byte_count += batch.nbytes
    manifest = Manifest(
        spark_schema=spark_schema(columns),
        row_count=row_count,
        byte_count=byte_count,
        truncated=False,
        chunk_limit=chunk_limit,
        parts=parts,
    )
    write_manifest(str(folder), manifest)
    return ResultReport(
        disposition=Disposition.STORED,
        spark_schema=manifest.spark_schema,
        row_count=row_count,
        byte_count=byte_count,
        truncated=False,
        chunks=len(group_into_chunks(parts, chunk_limit)),
    )


def _make_batch(columns: Columns, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    schema = build_stored_schema(parse_schema(spark_schema(columns)))
    arrays = [
        pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)
    ]
    return pa.record_batch(arrays, schema=schema)
