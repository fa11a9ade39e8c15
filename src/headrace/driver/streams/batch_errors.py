"""The errors of the functions that a query calls with each batch.

Spark knows the error of such a function as text only, inside a Py4JException.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

BatchFunction = Callable[[DataFrame, int], None]
"""Writes a batch of rows, given its number."""


class BatchErrors:
    """Keeps the error of the last call of a batch function of one run."""

    last: Exception | None = None

    def watch(self, write: BatchFunction) -> BatchFunction:
        """Return a function that calls another one and keeps its error."""

        def write_watched(batch: DataFrame, number: int) -> None:
            self.last = None
            try:
                write(batch, number)
            except Exception as error:
                self.last = error
                raise

        return write_watched
