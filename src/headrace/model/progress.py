"""Progress of a running statement, in Spark's own counts."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from headrace.model.text import Count


class Progress(BaseModel):
    """Sums over the Spark jobs that a statement has started so far.

    Skipped stages count as done. Adaptive execution starts jobs as it goes, so the totals grow.
    """

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    jobs: Count
    stages_done: Count
    stages_total: Count
    tasks_done: Count
    tasks_total: Count
    tasks_active: Count
    tasks_failed: Count
    """Failed attempts of tasks; Spark retries them."""
    rows_read: Count
    bytes_read: Count
    """Bytes read from sources that count them. A second read of the same data counts again."""
    rows_written: Count
    bytes_written: Count
