"""Which failures of a streaming query a restart can repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
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
from headrace.driver.writes.locks import METASTORE_CONDITION
from headrace.errors import HeadraceError, LeaseLost

_CAUSES = 20
"""Largest number of causes to search."""
_PERMANENT_ERRORS = (
    AnalysisException,
    ParseException,
    IllegalArgumentException,
    PySparkTypeError,
    PySparkValueError,
    UnsupportedOperationException,
    HeadraceError,
)
_DRIVER_ERRORS = (LeaseLost, NoNodeAnswers)
"""Errors that end the driver. The next driver continues the query."""
_PERMANENT_CLASSES = {
    "org.apache.spark.sql.AnalysisException",
    "org.apache.spark.sql.catalyst.ExtendedAnalysisException",
    "org.apache.spark.sql.catalyst.parser.ParseException",
    "java.lang.ClassNotFoundException",
    "org.apache.spark.SparkClassNotFoundException",
    # A class without the constructor that Spark calls.
    "java.lang.NoSuchMethodException",
    "java.lang.InstantiationException",
    # Spark checks with an assertion whether the sources of a checkpoint are those of the query.
    "java.lang.AssertionError",
}
_JVM_ERROR = "java.lang.VirtualMachineError"
"""Class of the errors of the JVM itself, whose causes say nothing about the query."""
_LINKAGE_ERROR = "java.lang.LinkageError"
"""Class of the errors of jars that are missing, or made for another version of Spark."""
_PERMANENT_CONDITIONS = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID",
    "STATE_STORE_UNSUPPORTED",
    "STREAMING_STATEFUL_OPERATOR",
    "INCOMPATIBLE_DATASOURCE",
    "UNSUPPORTED_STREAMING",
    # The source has deleted records that the checkpoint still needs.
    "KAFKA_DATA_LOSS",
    "UNABLE_TO_READ_STATE",
)


def is_lost_jvm(error: Exception) -> bool:
    """Return whether an error says that the JVM is gone, or about to be."""
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)


def is_permanent(error: Exception) -> bool:
    """Return whether a query that failed with this error would fail again at once."""
    if isinstance(error, _DRIVER_ERRORS) or find_condition(error) == METASTORE_CONDITION:
        return False
    if isinstance(error, _PERMANENT_ERRORS):
        return True
    if isinstance(error, Py4JJavaError):
        return is_permanent_cause(error.java_exception)
    return False


def is_permanent_cause(java_error: Any) -> bool:
    """Return whether a Java error, or one of its causes, is permanent."""
    try:
        causes = _list_causes(java_error)
        if any(_is_instance(cause, _JVM_ERROR) for cause in causes):
            return False
        return any(map(_is_permanent_class, causes))
    except Py4JError:
        return False


def _list_causes(java_error: Any) -> list[Any]:
    causes: list[Any] = []
    while java_error is not None and len(causes) < _CAUSES:
        causes.append(java_error)
        java_error = java_error.getCause()
    return causes


def _is_instance(java_error: Any, name: str) -> bool:
    """Return whether a class with this name is the class of an error, or an ancestor of it."""
    ancestor = java_error.getClass()
    while ancestor is not None:
        if ancestor.getName() == name:
            return True
        ancestor = ancestor.getSuperclass()
    return False


def _is_permanent_class(java_error: Any) -> bool:
    is_permanent_class = java_error.getClass().getName() in _PERMANENT_CLASSES or _is_instance(
        java_error, _LINKAGE_ERROR
    )
    try:
        condition = str(java_error.getCondition())
    except Py4JError:
        # Not an error of Spark's.
        return is_permanent_class
    # The metastore may answer again.
    is_permanent_class = is_permanent_class and condition != METASTORE_CONDITION
    return is_permanent_class or condition.startswith(_PERMANENT_CONDITIONS)


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
