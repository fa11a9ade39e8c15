"""Errors of Spark's JVM: causes, conditions, positions, and whether a repetition can help."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import ParseException, PySparkException
from pyspark.errors.exceptions.captured import (
    CapturedException,
    UnknownException,
    convert_exception,
)

from headrace.errors import Position
from headrace.grammar.text import position_at

_PYTHON = "Traceback (most recent call last):"
_JAVA_FRAMES = ("\tat ", "\t... ")
_CAUSED_BY = "Caused by: "
_JAVA_ERROR = "py4j.protocol.Py4JJavaError: "
_CAPTURED = "pyspark.errors.exceptions.captured."
_END = "Driver stacktrace:"
_WRAPPERS = (
    "org.apache.spark.",
    "py4j.",
    "java.lang.reflect.",
    "java.util.concurrent.ExecutionException",
)
"""Beginnings of the names of exceptions that only pass on their cause."""


def _wraps_its_cause(error: str) -> bool:
    """Return whether an exception of Java, given its class or its text, only passes on its cause.

    An exception of a library names its own cause in its message: it is shown itself.
    """
    return error.startswith(_WRAPPERS)


def find_headline(message: str) -> str:
    """Return the last cause in a message with a traceback of Python; else the message itself."""
    _before, mark, trace = message.rpartition(_PYTHON)
    if not mark:
        return message
    lines = trace.split("\n")
    begin = next((n for n, line in enumerate(lines) if line[:1].strip()), None)
    if begin is None:
        return message
    error = lines[begin:]
    if error[0].startswith(_JAVA_ERROR):
        return _find_java_cause(error) or error[0]
    return _cut_java_frames(error).removeprefix(_CAPTURED)


def _find_java_cause(lines: list[str]) -> str | None:
    """Return the first cause in the text of a Py4JJavaError that is no wrapper, else the last."""
    causes = [
        _cut_java_frames(lines[n:]).removeprefix(": ").removeprefix(_CAUSED_BY)
        for n, line in enumerate(lines)
        if line.startswith((": ", _CAUSED_BY))
    ]
    return next((cause for cause in causes if not _wraps_its_cause(cause)), None) or (
        causes[-1] if causes else None
    )


def _cut_java_frames(lines: list[str]) -> str:
    """Return the first lines, up to the frames of a Java stack trace."""
    end = next(
        (n for n, line in enumerate(lines) if line.startswith(_JAVA_FRAMES) or line == _END),
        len(lines),
    )
    return "\n".join(lines[:end]).strip()


_CAUSES = 20
"""Largest number of causes to search."""
_UNEXPLAINED = (
    "DATA_SOURCE_EXTERNAL_ERROR",
    "FAILED_READ_FILE.NO_HINT",
    "TASK_WRITE_FAILED",
    "_LEGACY_ERROR_TEMP_2070",  # Writing job failed.
    "_LEGACY_ERROR_TEMP_2254",  # Data read failed.
    "_LEGACY_ERROR_TEMP_2255",  # Epoch marker generation failed.
    "_LEGACY_ERROR_TEMP_2256",  # Foreach writer has been aborted due to a task failure.
)
"""Conditions of Spark's errors that say what has failed, and leave the reason to their cause."""


def _causes(java_error: Any) -> Iterator[Any]:
    """Yield a Java error and its causes."""
    for _ in range(_CAUSES):
        if java_error is None:
            return
        yield java_error
        java_error = java_error.getCause()


def unwrap_error(error: Exception) -> Exception:
    """Return the Spark error inside the exception of a failed job; else the error itself."""
    if isinstance(error, Py4JJavaError):
        with contextlib.suppress(Py4JError):
            return convert_java_error(error.java_exception)
    return error


def _find_cause_with_condition(java_error: Any) -> Any:
    """Return the first error in the chain of causes with a condition; else the error itself."""
    return next(filter(_has_condition, _causes(java_error)), java_error)


def convert_java_error(java_error: Any) -> CapturedException:
    """Convert the first cause with a condition of a Java error to PySpark's own exception class.

    For a Spark error without such a class, PySpark drops the condition: restore it. An error
    without a condition is described by its cause if it only passes that on.
    """
    java_error = _find_cause_with_condition(java_error)
    converted: CapturedException = convert_exception(java_error)
    if not isinstance(converted, UnknownException):
        return converted
    if _has_condition(java_error):
        return UnknownException(origin=java_error)
    text = str(_find_cause_of_wrapper(java_error).toString())
    return UnknownException(desc=text, stackTrace=converted._stackTrace)  # noqa: SLF001


def explain_headline(error: PySparkException, message: str) -> str:
    """Return the headline of a message, with the cause of an error that only says what failed."""
    headline, origin = find_headline(message), getattr(error, "_origin", None)
    if origin is None or error.getCondition() not in _UNEXPLAINED or origin.getCause() is None:
        return headline
    reason = str(_find_reason(origin.getCause()).toString())
    return f"{headline.removesuffix('.')}: {_cut_java_frames(find_headline(reason).splitlines())}"


def _find_reason(java_error: Any) -> Any:
    """Return the first error in the chain of causes that says why something failed."""
    reason = java_error
    for _ in range(_CAUSES):
        if _has_condition(reason):
            passes_on = reason.getCondition() in _UNEXPLAINED
        else:
            passes_on = _wraps_its_cause(reason.getClass().getName())
        if not passes_on or reason.getCause() is None:
            break
        reason = reason.getCause()
    return reason


def _find_cause_of_wrapper(java_error: Any) -> Any:
    """Return the first error in the chain of causes that is no wrapper; else the last one."""
    cause = java_error
    for _ in range(_CAUSES):
        if not _wraps_its_cause(cause.getClass().getName()) or cause.getCause() is None:
            break
        cause = cause.getCause()
    return cause


def _has_condition(java_error: Any) -> bool:
    return (
        _is_java_instance(java_error, "org.apache.spark.SparkThrowable")
        and java_error.getCondition() is not None
    )


def _is_java_instance(java_error: Any, class_name: str) -> bool:
    gateway = SparkContext._gateway  # noqa: SLF001 - as PySpark's own conversion does
    return bool(is_instance_of(gateway, java_error, class_name))


def find_position(error: PySparkException, text: str) -> Position | None:
    """Return the position of an error in the user's text, if Spark knows it."""
    origin = getattr(error, "_origin", None)
    if origin is None:
        return None
    try:
        if isinstance(error, ParseException):
            return _parser_position(origin, text)
        for context in origin.getQueryContext():
            offset = _context_offset(context, text)
            if offset is not None:
                return position_at(text, offset)
        if _is_java_instance(origin, "org.apache.spark.sql.exceptions.SqlScriptingException"):
            return _script_position(origin.origin(), text)
    except Py4JError:
        return None
    return None


def _parser_position(origin: Any, text: str) -> Position | None:
    command, line, start = origin.command(), origin.line(), origin.startPosition()
    if (
        command.isEmpty()
        or not _is_part_in_place(command.get(), text)
        or line.isEmpty()
        or start.isEmpty()
    ):
        return None
    return Position(int(line.get()), int(start.get()) + 1)


def _script_position(origin: Any, text: str) -> Position | None:
    sql, start = origin.sqlText(), origin.startIndex()
    if sql.isEmpty() or sql.get() != text or start.isEmpty():
        return None
    return position_at(text, int(start.get()))


def _context_offset(context: Any, text: str) -> int | None:
    """Return the offset in the user's text that a Spark QueryContext points to, if any."""
    if context.contextType().toString() != "SQL" or context.objectType():
        return None
    sql = context.sqlText()
    if sql.isEmpty() or context.startIndex() < 0 or not _is_part_in_place(sql.get(), text):
        return None
    return int(context.startIndex())


def _is_part_in_place(sql: str, text: str) -> bool:
    """Return whether Spark has parsed the text, or its last part with blanks for what precedes it.

    A driver parses the query of a CREATE MATERIALIZED VIEW in this way.
    """
    part = sql.lstrip()
    begin = len(sql) - len(part)
    return sql == text or (0 < begin == text.rstrip("; \t\r\n").rfind(part))


def format_trace(error: Exception, spark_error: Exception) -> str:
    """Return the stack trace of an error in Python, with that of the JVM."""
    python = "".join(traceback.format_exception(error))
    java = ""
    if isinstance(spark_error, CapturedException):
        java = str(spark_error._stackTrace or "")  # noqa: SLF001 - not in PySpark's API
    return f"{python}\n{java}".strip()


def is_lost_jvm(error: Exception) -> bool:
    """Return whether an error says that the JVM is gone, or about to be."""
    return isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)


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
METASTORE_CONDITION = "_LEGACY_ERROR_TEMP_3065"
"""With this condition, HiveExternalCatalog.withClient reports all errors of the metastore."""


def is_permanent_cause(java_error: Any) -> bool:
    """Return whether a Java error, or one of its causes, is permanent."""
    try:
        causes = list(_causes(java_error))
        if any(_has_class(cause, _JVM_ERROR) for cause in causes):
            return False
        return any(map(_is_permanent_class, causes))
    except Py4JError:
        return False


def _has_class(java_error: Any, name: str) -> bool:
    """Return whether a class with this name is the class of an error, or an ancestor of it."""
    ancestor = java_error.getClass()
    while ancestor is not None:
        if ancestor.getName() == name:
            return True
        ancestor = ancestor.getSuperclass()
    return False


def _is_permanent_class(java_error: Any) -> bool:
    is_permanent_class = java_error.getClass().getName() in _PERMANENT_CLASSES or _has_class(
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


def find_root_text(error: Py4JJavaError) -> str:
    """Return the text of the last cause of an error, without a stack trace."""
    *_, root = _causes(error.java_exception)
    return str(root.toString())


def find_sql_state(error: Py4JJavaError) -> tuple[str | None, str] | None:
    """Return SQLSTATE and message of an error of a database; None for any other error."""
    java_error = error.java_exception
    try:
        return java_error.getSQLState(), str(java_error.getMessage())
    except Py4JError:
        # Not a java.sql.SQLException.
        return None


def summarize_error(error: Exception) -> str:
    """Return the first line of an error of Python or Java."""
    java_error = error.java_exception if isinstance(error, Py4JJavaError) else error
    return str(java_error).strip().partition("\n")[0]
