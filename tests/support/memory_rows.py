"""Rows in memory with the interface of a result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import ChunkNotFound
from headrace.results.layout import build_stored_schema
from headrace.results.reader import RowRange, cut_batches
from headrace.results.schema import Schema, parse_schema


@dataclass
class MemoryRows:
    """Rows of batches in memory. Each batch is a chunk."""

    schema: Schema
    content: list[pa.RecordBatch]

    @property
    def chunks(self) -> int:
        return max(1, len(self.content))

    @property
    def row_count(self) -> int:
        return sum(batch.num_rows for batch in self.content)

    def chunk(self, number: int) -> list[pa.RecordBatch]:
        if number >= self.chunks:
            raise ChunkNotFound
        return self.content[number : number + 1]

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.content

    def select(self, rows: RowRange) -> Iterator[pa.RecordBatch]:
        return cut_batches(self.batches(), rows)


def make_schema(kinds: dict[str, Any]) -> Schema:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in kinds.items()
    ]
    return parse_schema({"type": "struct", "fields": fields})


def make_rows(kinds: dict[str, Any], *chunks: list[list[Any]]) -> MemoryRows:
    """Return rows from the columns of each chunk."""
    schema = make_schema(kinds)
    stored = build_stored_schema(schema)
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(chunk, stored, strict=True)],
            schema=stored,
        )
        for chunk in chunks
    ]
    return MemoryRows(schema, batches)
