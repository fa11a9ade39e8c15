"""Options of a result."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.driver.output.held_results import HeldResults
from headrace.model.result import Disposition

_MEMORY_TASKS = 64
"""A task returns at most this part of the free memory."""
_MAX_TASK_BYTES = 1 << 20
"""Whatever the limit of the driver's memory is: the driver then receives about 120 MB at most, even
from 10,000 tasks (see `headrace.driver.output.task`). Spark ends a job that returns more than
spark.driver.maxResultSize, 1 GiB by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Disposition, location and limits for the result of one statement."""

    disposition: Disposition
    row_limit: int | None
    """Maximum number of rows. A result with more rows is cut and marked as truncated."""
    byte_limit: int | None
    """Maximum bytes of all record batches. A larger result is cut and marked as truncated."""
    location: str
    """Directory of this result, a path or a URI, unique to the statement and its attempt."""
    inline_limit: int
    """Maximum bytes of the record batches of an inline result."""
    chunk_limit: int
    """Maximum bytes of the record batches of a chunk, unless a single row is larger."""
    statement_id: str = ""
    held: HeldResults | None = None
    """Holder of `memory` results; None: the driver holds none, and they are stored."""

    @property
    def inline_bytes(self) -> int:
        """Maximum bytes of an inline result, which is one chunk."""
        return min(self.inline_limit, self.chunk_limit)

    @property
    def buffer_bytes(self) -> int:
        """Maximum bytes that a task returns to the driver instead of a part."""
        if self.disposition is Disposition.STORED:
            return 0
        if self.disposition is Disposition.MEMORY and self.held is not None:
            share = min(self.held.free_bytes // _MEMORY_TASKS, _MAX_TASK_BYTES)
            return max(self.inline_bytes, share)
        return self.inline_bytes
