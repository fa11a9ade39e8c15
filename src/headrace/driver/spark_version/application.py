"""The Spark application: its JVM, its first plan, its jars, and PySpark's own checks of values."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

CONTEXT_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that quote the text of a failed statement. The node keeps its error."""


def connect_to_jvm(process: subprocess.Popen[bytes]) -> None:
    """Connect PySpark to a JVM that has started, as if PySpark had started the process."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - it needs no SparkContext
    SparkContext._gateway.proc = process  # type: ignore[union-attr]  # noqa: SLF001 - as above


def make_first_plan(session: SparkSession) -> None:
    """Let Spark create the catalog of a session, and load its extensions.

    The catalog takes the configuration of the session that is active in the thread. In another
    thread, that would be Spark's default configuration.
    """
    session._jsparkSession.sql("SELECT 1")  # noqa: SLF001 - without a DataFrame of PySpark


def list_jars(session: SparkSession) -> set[str]:
    """Return the names of the files of all jars that the application has added."""
    jars = session.sparkContext._jsc.sc().listJars()  # noqa: SLF001 - PySpark has no listJars
    return {str(jars.apply(index)).rpartition("/")[2] for index in range(jars.size())}


def has_stopped(context: SparkContext) -> bool:
    """Return whether an application has stopped. Raises Py4JError if its JVM does not answer.

    Raises AttributeError if PySpark has stopped the context, which it then forgets.
    """
    return bool(context._jsc.sc().isStopped())  # noqa: SLF001 - not in PySpark's API


def replace_checks() -> None:
    """Let PySpark's converters recognise values of NumPy without importing NumPy."""
    setattr(NumpyArrayConverter, "can_convert", _is_vector)  # noqa: B010 - mypy refuses a method
    setattr(NumpyScalarConverter, "can_convert", _is_scalar)  # noqa: B010 - as above


def _is_vector(_converter: NumpyArrayConverter, value: Any) -> bool:
    numpy = _loaded_numpy()
    return numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 1


def _is_scalar(_converter: NumpyScalarConverter, value: Any) -> bool:
    numpy = _loaded_numpy()
    return numpy is not None and isinstance(value, numpy.generic)


def _loaded_numpy() -> Any:
    """Return the module; None if this process has no value of NumPy, because it is not loaded."""
    return sys.modules.get("numpy")
