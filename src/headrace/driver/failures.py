"""Errors of Python and the JVM as structured failures.

Spark's own errors are known by their condition and SQLSTATE. Positions are those that Spark's
parser keeps with every expression, and are told only when they speak of the user's text: an error
inside a view's text, an EXECUTE IMMEDIATE or a text with `${…}` substituted has none.
"""

from __future__ import annotations

import contextlib
import traceback
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import (
    AnalysisException,
    ParseException,
    PySparkException,
)
from pyspark.errors.exceptions.captured import (
    CapturedException,
    UnknownException,
    convert_exception,
)

from headrace.errors import HeadraceError, Position
from headrace.grammar.text import position_at
from headrace.model.failure import Failure

_TRACE_CHARACTERS = 64 * 1024
_CAUSES = 20


def failure_of(error: Exception, text: str) -> Failure:
    """The failure that a statement with this text ends with."""
    if isinstance(error, HeadraceError):
        return Failure.of(error)
    known = _captured(error)
    trace = _trace(error, known)
    if not isinstance(known, PySparkException):
        message = f"{type(known).__name__}: {known}"
        return Failure(code="execution_error", message=message, trace=trace)
    condition, sqlstate = known.getCondition(), known.getSqlState()
    place = _position(known, text)
    return Failure(
        code=_code(known),
        message=_message(known, condition, sqlstate),
        condition=condition,
        sqlstate=sqlstate,
        line=place.line if place else None,
        column=place.column if place else None,
        trace=trace,
    )


def _captured(error: Exception) -> Exception:
    """The Spark error that a failed job's exception wraps, else the error itself."""
    known = error
    if isinstance(error, Py4JJavaError):
        with contextlib.suppress(Py4JError):
            known = _converted(_with_condition(error.java_exception))
    return known


def _with_condition(java_error: Any) -> Any:
    """The first in the chain of causes that has a condition; the error itself if none has."""
    cause = java_error
    for _ in range(_CAUSES):
        if cause is None:
            break
        if _has_condition(cause):
            return cause
        cause = cause.getCause()
    return java_error


def _converted(java_error: Any) -> CapturedException:
    """PySpark's own error for it.

    Where PySpark has no class for a Spark error it drops the condition, which is kept here.
    """
    known: CapturedException = convert_exception(java_error)
    if isinstance(known, UnknownException) and _has_condition(java_error):
        return UnknownException(origin=java_error)
    return known


def _has_condition(java_error: Any) -> bool:
    return (
        _is_a(java_error, "org.apache.spark.SparkThrowable")
        and java_error.getCondition() is not None
    )


def _is_a(java_error: Any, name: str) -> bool:
    gateway = SparkContext._gateway  # noqa: SLF001 - what PySpark's own conversion asks
    return bool(is_instance_of(gateway, java_error, name))


def _code(error: PySparkException) -> str:
    if isinstance(error, ParseException):
        return "syntax_error"
    return "analysis_error" if isinstance(error, AnalysisException) else "execution_error"


def _message(error: PySparkException, condition: str | None, sqlstate: str | None) -> str:
    """Spark's sentence without what is told beside it: condition, SQLSTATE, the text, the plan."""
    message = str(error).strip()
    if condition is not None:
        # Errors of scripts begin with `{LINE:n} `.
        _, mark, rest = message.partition(f"[{condition}]")
        message = rest.strip() if mark else message
    if sqlstate is not None:
        message = message.partition(f"SQLSTATE: {sqlstate}")[0]
    return message.partition("\n== SQL")[0].strip()


def _position(error: PySparkException, text: str) -> Position | None:
    origin = getattr(error, "_origin", None)
    if origin is None:
        return None
    try:
        if isinstance(error, ParseException):
            return _parse_position(origin, text)
        for context in origin.getQueryContext():
            offset = _offset(context, text)
            if offset is not None:
                return position_at(text, offset)
        if _is_a(origin, "org.apache.spark.sql.exceptions.SqlScriptingException"):
            return _script_position(origin.origin(), text)
    except Py4JError:
        return None
    return None


def _parse_position(origin: Any, text: str) -> Position | None:
    command, line, start = origin.command(), origin.line(), origin.startPosition()
    if command.isEmpty() or command.get() != text or line.isEmpty() or start.isEmpty():
        return None
    return Position(int(line.get()), int(start.get()) + 1)


def _script_position(origin: Any, text: str) -> Position | None:
    sql, start = origin.sqlText(), origin.startIndex()
    if sql.isEmpty() or sql.get() != text or start.isEmpty():
        return None
    return position_at(text, int(start.get()))


def _offset(context: Any, text: str) -> int | None:
    if context.contextType().toString() != "SQL" or context.objectType():
        return None
    sql = context.sqlText()
    if sql.isEmpty() or sql.get() != text or context.startIndex() < 0:
        return None
    return int(context.startIndex())


def _trace(error: Exception, known: Exception) -> str:
    python = "".join(traceback.format_exception(error))
    java = ""
    if isinstance(known, CapturedException):
        java = str(known._stackTrace or "")  # noqa: SLF001 - PySpark offers no other way to it
    return f"{python}\n{java}".strip()[:_TRACE_CHARACTERS]
