"""Runs Python code as one SQL execution of Spark, as Spark's own actions run.

Jobs of an execution appear on the SQL page of Spark's UI, with the plan and its metrics, and their
tasks see the configuration of the session. Jobs outside an execution see the defaults, which
changes what some expressions return, for example with `spark.sql.legacy.timeParserPolicy`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pyspark.sql import DataFrame

_T = TypeVar("_T")
_NAME = "headrace"
"""Name of the action for Spark's listeners."""


def run_as_sql_execution(frame: DataFrame, action: Callable[[], _T]) -> _T:
    """Call `action` in an execution of the DataFrame's plan, and return its result.

    Raises what `action` raises, and what Spark raises.
    """
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - PySpark offers no other way to executions
    query = frame._jdf.queryExecution()  # noqa: SLF001 - as above
    call = _Call(action)
    thread = _java_thread(jvm)
    outer = _CALLS.get(thread)
    _CALLS[thread] = call
    try:
        jvm.org.apache.spark.sql.execution.SQLExecution.withNewExecutionId(
            query, jvm.scala.Option.apply(_NAME), _function_of_thread(jvm)
        )
    except Exception:
        if call.error is None:
            raise
    finally:
        if outer is None:
            del _CALLS[thread]
        else:
            _CALLS[thread] = outer
    if call.error is not None:
        raise call.error
    return call.result


def is_unreported(record: logging.LogRecord) -> bool:
    """Return whether a log record of Py4J is not about the error of an action.

    A filter for the logger `py4j.clientserver`: the caller of the action receives the error.
    """
    error = None if record.exc_info is None else record.exc_info[1]
    return error is None or all(call.error is not error for call in list(_CALLS.values()))


class _Call(Generic[_T]):
    """A call of an action by the JVM, with its result or its error."""

    result: _T

    def __init__(self, action: Callable[[], _T]) -> None:
        self._action = action
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call the action. Raises what it raises."""
        try:
            self.result = self._action()
        except BaseException as error:
            # Py4J gives the JVM only the text of the error. The execution fails with it.
            self.error = error
            raise


_CALLS: dict[int, _Call[Any]] = {}
"""The running call of each Java thread."""


def _java_thread(jvm: Any) -> int:
    """Return the number of the Java thread that serves this Python thread."""
    number: int = jvm.java.lang.Thread.currentThread().getId()
    return number


class _CallOfThread:
    """A `java.util.function.Supplier` that runs the call of the Java thread that calls it.

    Py4J calls back in the Python thread that has called the JVM. When something has started Py4J's
    callback server, for example `foreachBatch`, it calls back in another Python thread.
    """

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def get(self) -> None:
        """Run the call."""
        _CALLS[_java_thread(self._jvm)].run()

    class Java:
        """The interfaces that Py4J implements with this class."""

        implements = ("java.util.function.Supplier",)


@lru_cache(maxsize=1)
def _function_of_thread(jvm: Any) -> Any:
    """Return the Scala function that calls back.

    It lives as long as the JVM. Py4J would otherwise try to tell Python of each function that the
    JVM no longer needs, at a port where nothing of this driver listens.
    """
    return jvm.scala.jdk.javaapi.FunctionConverters.asScalaFromSupplier(_CallOfThread(jvm))
