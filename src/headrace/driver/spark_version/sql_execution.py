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

from headrace.driver.spark_version.bridge import Py4JBridge

_T = TypeVar("_T")
_NAME = "headrace"
"""Name of the action for Spark's listeners."""


def run_as_sql_execution(frame: DataFrame, action: Callable[[], _T]) -> _T:
    """Call `action` in an execution of the DataFrame's plan, and return its result.

    Raises what `action` raises, and what Spark raises.
    """
    jvm = Py4JBridge(frame.sparkSession)
    query = frame._jdf.queryExecution()  # noqa: SLF001 - as above
    call = _Call(action)
    thread = _java_thread(jvm.root)
    outer = _CALLS.get(thread)
    _CALLS[thread] = call
    try:
        executions = jvm.singleton("org.apache.spark.sql.execution.SQLExecution")
        executions.withNewExecutionId(query, *_execution_arguments(jvm.root))
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


def _java_thread(root: Any) -> int:
    """Return the number of the Java thread that serves this Python thread."""
    number: int = _thread_class(root).currentThread().getId()
    return number


@lru_cache(maxsize=1)
def _thread_class(root: Any) -> Any:
    return root.java.lang.Thread


class _CallOfThread:
    """A `java.util.function.Supplier` that runs the call of the Java thread that calls it.

    Py4J calls back in the Python thread that has called the JVM. When something has started Py4J's
    callback server, for example `foreachBatch`, it calls back in another Python thread.
    """

    def __init__(self, root: Any) -> None:
        self._root = root

    def get(self) -> None:
        """Run the call."""
        _CALLS[_java_thread(self._root)].run()

    class Java:
        """The interfaces that Py4J implements with this class."""

        implements = ("java.util.function.Supplier",)


@lru_cache(maxsize=1)
def _execution_arguments(root: Any) -> tuple[Any, Any]:
    """Return the name of the action as a Scala Option, and the Scala function that calls back.

    They live as long as the JVM. Py4J would otherwise try to tell Python of each function that the
    JVM no longer needs, at a port where nothing of this driver listens.
    """
    name = root.scala.Option.apply(_NAME)
    return name, root.scala.jdk.javaapi.FunctionConverters.asScalaFromSupplier(_CallOfThread(root))
