"""Which failures of a streaming query a restart can repair."""

from __future__ import annotations

from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkTypeError,
    PySparkValueError,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, SparkSession

from headrace.driver.failures import find_condition
from headrace.driver.link import NoNodeAnswers
from headrace.driver.secret_values import ProviderFailed
from headrace.driver.spark_version.errors import METASTORE_CONDITION, is_permanent_cause
from headrace.errors import HeadraceError, LeaseLost

_PERMANENT_ERRORS = (
    AnalysisException,
    ParseException,
    IllegalArgumentException,
    PySparkTypeError,
    PySparkValueError,
    UnsupportedOperationException,
    HeadraceError,
)
_TRANSIENT_ERRORS = (LeaseLost, NoNodeAnswers, ProviderFailed)
"""Errors that end the driver, so that the next one continues the query, or that may pass."""


def is_permanent(error: Exception) -> bool:
    """Return whether a query that failed with this error would fail again at once."""
    if isinstance(error, _TRANSIENT_ERRORS) or find_condition(error) == METASTORE_CONDITION:
        return False
    if isinstance(error, _PERMANENT_ERRORS):
        return True
    if isinstance(error, Py4JJavaError):
        return is_permanent_cause(error.java_exception)
    return False


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
