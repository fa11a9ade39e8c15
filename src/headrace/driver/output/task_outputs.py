"""The pieces of a result in the order of their rows, and where limits cut them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.results.batches import rows_within, size


@dataclass(frozen=True)
class TaskOutput:
    """What one task left: a part in the results location, or an Arrow IPC stream in memory."""

    rows: list[int]
    """Rows of each of its batches that belong to the result."""
    sizes: list[int]
    """Bytes of each of them."""
    part: str | None
    data: bytes | None

    def held(self) -> list[pa.RecordBatch]:
        """The batches of a piece in memory, without the rows that a limit cut off."""
        with pa.ipc.open_stream(self.data) as stream:
            return [batch.slice(0, rows) for batch, rows in zip(stream, self.rows, strict=False)]


def apply_limits(
    pieces: list[TaskOutput],
    row_limit: int | None,
    byte_limit: int | None,
    load: Callable[[TaskOutput, int], pa.RecordBatch],
) -> tuple[list[TaskOutput], bool]:
    """The longest run of first rows within both limits, and whether anything was cut off.

    `load` fetches one batch of a piece: the one in which the cut falls is measured.
    """
    rows_left = row_limit if row_limit is not None else sum(sum(piece.rows) for piece in pieces)
    bytes_left = byte_limit if byte_limit is not None else sum(sum(piece.sizes) for piece in pieces)
    for at, piece in enumerate(pieces):
        for index, (rows, taken) in enumerate(zip(piece.rows, piece.sizes, strict=True)):
            if rows <= rows_left and taken <= bytes_left:
                rows_left -= rows
                bytes_left -= taken
                continue
            batch = load(piece, index).slice(0, min(rows, rows_left))
            last = _first(piece, index, batch.slice(0, rows_within(batch, bytes_left)))
            return [*pieces[:at], *([last] if last.rows else [])], True
    return pieces, False


def _first(piece: TaskOutput, index: int, cut_batch: pa.RecordBatch) -> TaskOutput:
    """The piece up to a batch, of which only some rows stay."""
    rows, sizes = piece.rows[:index], piece.sizes[:index]
    if cut_batch.num_rows:
        rows, sizes = [*rows, cut_batch.num_rows], [*sizes, size(cut_batch)]
    return replace(piece, rows=rows, sizes=sizes)
