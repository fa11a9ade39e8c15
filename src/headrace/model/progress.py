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
    """Spark jobs started."""
    stages_done: Count
    """Stages that have ended."""
    stages_total: Count
    """Stages of the jobs started."""
    tasks_done: Count
    """Tasks that have ended."""
    tasks_total: Count
    """Tasks of the jobs started."""
    tasks_active: Count
    """Tasks that run now."""
    tasks_failed: Count
    """Failed attempts of tasks; Spark retries them."""
    rows_read: Count
    """Rows read from sources that count them."""
    bytes_read: Count
    """Bytes read from sources that count them. A second read of the same data counts again."""
    rows_written: Count
    """Rows written."""
    bytes_written: Count
    """Bytes written."""
