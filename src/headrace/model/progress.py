"""How far a running statement is, in Spark's own counts."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Progress(BaseModel):
    """Sums over the Spark jobs that a statement has started so far; skipped stages count as done.

    Adaptive execution starts jobs as it goes: the totals grow.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    jobs: int
    stages_done: int
    stages_total: int
    tasks_done: int
    tasks_total: int
    tasks_active: int
    tasks_failed: int
    """Attempts of tasks; Spark tries them again."""
    rows_read: int
    bytes_read: int
    """From sources, as far as they count; what is read again counts again."""
    rows_written: int
    bytes_written: int
