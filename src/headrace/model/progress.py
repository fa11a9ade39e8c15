"""Progress of a running statement, in Spark's own counts."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Progress(BaseModel):
    """Sums over the Spark jobs that a statement has started so far.

    Skipped stages count as done. Adaptive execution starts jobs as it goes, so the totals grow.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    jobs: int
    stages_done: int
    stages_total: int
    tasks_done: int
    tasks_total: int
    tasks_active: int
    tasks_failed: int
    """Failed attempts of tasks; Spark retries them."""
    rows_read: int
    bytes_read: int
    """Bytes read from sources that count them. A second read of the same data counts again."""
    rows_written: int
    bytes_written: int
