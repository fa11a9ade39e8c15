"""The functions that a query calls with each batch.

Spark knows the error of such a function as text only, inside a Py4JException.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

BatchFunction = Callable[[DataFrame, int], None]
"""Writes a batch of rows, given its number."""


class BatchErrors:
    """Keeps the error of the last call of a batch function of one run."""

    last: Exception | None = None

    def __init__(self, before_first: Callable[[SparkSession], None] = lambda _session: None):
        """Create a record for one run.

        Args:
            before_first: Called before the first batch, in the session of the batch. If it fails,
                the batch fails.
        """
        self._before_first = before_first
        self._is_first = True

    def watch(self, write: BatchFunction) -> BatchFunction:
        """Return a function that calls another one and keeps its error."""

        def write_watched(batch: DataFrame, number: int) -> None:
            self.last = None
            try:
                if self._is_first:
                    self._before_first(batch.sparkSession)
                    self._is_first = False
                write(batch, number)
            except Exception as error:
                self.last = error
                raise

        return write_watched
