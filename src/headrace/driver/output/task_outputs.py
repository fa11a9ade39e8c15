"""The outputs of tasks in the order of their rows, and the limits of a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.results.batches import batch_bytes, count_rows_within


@dataclass(frozen=True)
class TaskOutput:
    """The rows of one task: either a part in the results location or a stream in memory."""

    rows: list[int]
    """For each batch, the number of its first rows that belong to the result."""
    sizes: list[int]
    """Bytes of each batch."""
    part: str | None
    """File name of the part."""
    data: bytes | None
    """Arrow IPC stream of rows in memory."""

    def read_data(self) -> list[pa.RecordBatch]:
        """Return the batches in memory, without the rows that a limit cut off."""
        with pa.ipc.open_stream(self.data) as stream:
            return [batch.slice(0, rows) for batch, rows in zip(stream, self.rows, strict=False)]


def apply_limits(
    outputs: list[TaskOutput],
    row_limit: int | None,
    byte_limit: int | None,
    read_batch: Callable[[TaskOutput, int], pa.RecordBatch],
) -> tuple[list[TaskOutput], bool]:
    """Cut the outputs to the longest run of first rows within both limits.

    Args:
        outputs: Outputs in the order of their rows.
        row_limit: Maximum number of rows, or None.
        byte_limit: Maximum number of bytes, or None.
        read_batch: Returns a batch of an output by index. It is called once, for the batch that
            must be cut.

    Returns:
        The outputs within the limits, and whether rows were cut off.
    """
    rows_left = row_limit if row_limit is not None else sum(sum(output.rows) for output in outputs)
    bytes_left = (
        byte_limit if byte_limit is not None else sum(sum(output.sizes) for output in outputs)
    )
    for position, output in enumerate(outputs):
        for index, (rows, size) in enumerate(zip(output.rows, output.sizes, strict=True)):
            if rows <= rows_left and size <= bytes_left:
                rows_left -= rows
                bytes_left -= size
                continue
            batch = read_batch(output, index).slice(0, min(rows, rows_left))
            cut_batch = batch.slice(0, count_rows_within(batch, bytes_left))
            last = _cut_output(output, index, cut_batch)
            return [*outputs[:position], *([last] if last.rows else [])], True
    return outputs, False


def _cut_output(output: TaskOutput, index: int, cut_batch: pa.RecordBatch) -> TaskOutput:
    """Return an output that ends with the rows of `cut_batch`, its batch number `index`."""
    rows, sizes = output.rows[:index], output.sizes[:index]
    if cut_batch.num_rows:
        rows, sizes = [*rows, cut_batch.num_rows], [*sizes, batch_bytes(cut_batch)]
    return replace(output, rows=rows, sizes=sizes)
