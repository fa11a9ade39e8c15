"""Which record batches make up which chunk."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.result import ResultPart


def count_out(parts: Iterable[ResultPart], limit: int) -> list[list[tuple[str, int, int]]]:
    """The chunks of a result: for each, the (part, index, rows) of its batches, in order.

    Batches fill a chunk up to `limit` bytes; a batch larger than that is a chunk of its own. There
    is always a first chunk, if an empty one.
    """
    chunks: list[list[tuple[str, int, int]]] = [[]]
    filled = 0
    for part in parts:
        for index, (rows, size) in enumerate(zip(part.rows, part.bytes, strict=True)):
            if chunks[-1] and filled + size > limit:
                chunks.append([])
                filled = 0
            chunks[-1].append((part.name, index, rows))
            filled += size
    return chunks
