"""Which batches a format writes: those of one chunk, or all."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.results.reader import Rows


def select_batches(rows: Rows, chunk: int | None) -> Iterator[pa.RecordBatch]:
    """The batches of a chunk, or of the whole result. Raises as `Rows` does, before any batch."""
    return rows.batches() if chunk is None else iter(rows.chunk(chunk))
