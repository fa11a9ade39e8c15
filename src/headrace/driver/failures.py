"""Turns errors of Python and the JVM into structured failures.

Spark's own errors are identified by their condition and SQLSTATE. Positions come from Spark's
parser, which keeps them with every expression. A failure has a position only if the position refers
to the user's text. An error inside the text of a view or of an EXECUTE IMMEDIATE has none, nor has
an error in a text with substituted `${…}`.
"""

from __future__ import annotations

import contextlib
import re
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

from headrace.errors import (
    HeadraceError,
    InvalidSetting,
    Position,
    SettingDenied,
    StatementFailed,
)
from headrace.grammar.quoting import unquote_name
from headrace.grammar.text import position_at
from headrace.model.failure import ANALYSIS_ERROR, EXECUTION_ERROR, SYNTAX_ERROR, Failure

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


def wraps_its_cause(error: str) -> bool:
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
    return next((cause for cause in causes if not wraps_its_cause(cause)), None) or (
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
"""Largest number of causes to search for an error with a condition."""
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


_REFUSED_SETTING = re.compile(
    rf"\[({InvalidSetting.code}|{SettingDenied.code}) (.*?)\] (.*)", re.DOTALL
)
"""The message of a refused SET, see `setting_rules`: code, key, and the message for the user."""


class KnownFailure(StatementFailed):
    """An error whose failure another part of Headrace has described already."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def describe_failure(error: Exception, text: str) -> Failure:
    """Return the failure of a statement with this text that ended with this error."""
    if isinstance(error, KnownFailure):
        return error.failure
    if isinstance(error, HeadraceError):
        return Failure.of(error)
    spark_error = _unwrap(error)
    trace = _format_trace(error, spark_error)
    if not isinstance(spark_error, PySparkException):
        message = find_headline(f"{type(spark_error).__name__}: {spark_error}")
        return Failure(code=EXECUTION_ERROR, message=message, trace=trace)
    refusal = _REFUSED_SETTING.search(str(spark_error))
    condition, sqlstate = spark_error.getCondition(), spark_error.getSqlState()
    if refusal is not None and condition is None:
        return _describe_refused_setting(refusal, text)
    position = _find_position(spark_error, text)
    return Failure(
        code=_failure_code(spark_error),
        message=_explain(spark_error, _extract_message(spark_error, condition, sqlstate)),
        condition=condition,
        sqlstate=sqlstate,
        line=position.line if position else None,
        column=position.column if position else None,
        trace=trace,
    )


def _explain(error: PySparkException, message: str) -> str:
    """Return the headline of a message, with the cause of an error that only says what failed."""
    headline, origin = find_headline(message), getattr(error, "_origin", None)
    if origin is None or error.getCondition() not in _UNEXPLAINED or origin.getCause() is None:
        return headline
    reason = str(_find_reason(origin.getCause()).toString())
    return f"{headline.removesuffix('.')}: {_cut_java_frames(find_headline(reason).splitlines())}"


def _describe_refused_setting(refusal: re.Match[str], text: str) -> Failure:
    code, key, message = refusal.groups()
    offset = text.find(key)
    position = position_at(text, offset) if offset >= 0 else None
    return Failure(
        code=code,
        message=message.strip(),
        line=position.line if position else None,
        column=position.column if position else None,
    )


def describe_java_error(java_error: Any) -> Failure:
    """Return the failure for a Java error, described by its first cause with a condition."""
    return describe_failure(_convert(_find_cause_with_condition(java_error)), "")


def find_condition(error: Exception) -> str | None:
    """Return the condition of a Spark error, or of its first cause with a condition, or None."""
    spark_error = _unwrap(error)
    return spark_error.getCondition() if isinstance(spark_error, PySparkException) else None


def _unwrap(error: Exception) -> Exception:
    """Return the Spark error inside the exception of a failed job; else the error itself."""
    if isinstance(error, Py4JJavaError):
        with contextlib.suppress(Py4JError):
            return _convert(_find_cause_with_condition(error.java_exception))
    return error


def _find_cause_with_condition(java_error: Any) -> Any:
    """Return the first error in the chain of causes with a condition; else the error itself."""
    cause = java_error
    for _ in range(_CAUSES):
        if cause is None:
            break
        if _has_condition(cause):
            return cause
        cause = cause.getCause()
    return java_error


def _convert(java_error: Any) -> CapturedException:
    """Convert a Java error to PySpark's own exception class.

    For a Spark error without such a class, PySpark drops the condition: restore it. An error
    without a condition is described by its cause if it only passes that on.
    """
    converted: CapturedException = convert_exception(java_error)
    if not isinstance(converted, UnknownException):
        return converted
    if _has_condition(java_error):
        return UnknownException(origin=java_error)
    text = str(_find_cause_of_wrapper(java_error).toString())
    return UnknownException(desc=text, stackTrace=converted._stackTrace)  # noqa: SLF001


def _find_reason(java_error: Any) -> Any:
    """Return the first error in the chain of causes that says why something failed."""
    reason = java_error
    for _ in range(_CAUSES):
        if _has_condition(reason):
            passes_on = reason.getCondition() in _UNEXPLAINED
        else:
            passes_on = wraps_its_cause(reason.getClass().getName())
        if not passes_on or reason.getCause() is None:
            break
        reason = reason.getCause()
    return reason


def _find_cause_of_wrapper(java_error: Any) -> Any:
    """Return the first error in the chain of causes that is no wrapper; else the last one."""
    cause = java_error
    for _ in range(_CAUSES):
        if not wraps_its_cause(cause.getClass().getName()) or cause.getCause() is None:
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


def _failure_code(error: PySparkException) -> str:
    if isinstance(error, ParseException):
        return SYNTAX_ERROR
    return ANALYSIS_ERROR if isinstance(error, AnalysisException) else EXECUTION_ERROR


def _extract_message(error: PySparkException, condition: str | None, sqlstate: str | None) -> str:
    """Return Spark's sentence alone, without condition, SQLSTATE, SQL text and plan."""
    message = str(error).strip()
    if condition is not None:
        # Errors of scripts begin with `{LINE:n} `.
        _, mark, rest = message.partition(f"[{condition}]")
        message = rest.strip() if mark else message
    if sqlstate is not None:
        message = message.partition(f"SQLSTATE: {sqlstate}")[0]
    return message.partition("\n== SQL")[0].strip()


def _find_position(error: PySparkException, text: str) -> Position | None:
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


def _format_trace(error: Exception, spark_error: Exception) -> str:
    python = "".join(traceback.format_exception(error))
    java = ""
    if isinstance(spark_error, CapturedException):
        java = str(spark_error._stackTrace or "")  # noqa: SLF001 - not in PySpark's API
    return f"{python}\n{java}".strip()


_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_PART = re.compile(r"`(?:[^`]|``)+`")
TEMPORARY_REFERENCE = "INVALID_TEMP_OBJ_REFERENCE"
"""Spark's condition for a permanent object that reads a temporary one."""
_TEMPORARY_REFERENCE_STATE = "42K0F"


class InvalidStream(StatementFailed):
    """The stream cannot be read, or cannot be written to its sink."""

    code = "invalid_stream"


def split_name(written: object) -> list[str]:
    """Return the parts of a name in a parameter of an error of Spark."""
    return [unquote_name(part) for part in _PART.findall(str(written or ""))]


def find_missing_parts(error: AnalysisException) -> list[str]:
    """Return the parts of the name that Spark has not found; empty for another error."""
    if error.getCondition() != _NOT_FOUND:
        return []
    return split_name((error.getMessageParameters() or {}).get("relationName"))


def refuse_permanent_view(
    name: str, *, is_stream: bool, position: Position | None = None
) -> InvalidStream:
    """Return the error of a permanent view that reads a stream.

    Args:
        name: The stream, or the temporary view over a stream.
    """
    reason = "it is a stream" if is_stream else "it is a temporary view over a stream"
    error = InvalidStream(
        f"A permanent view cannot read {name}, because {reason}: other users and sessions do not"
        " have it. Write CREATE TEMPORARY VIEW … AS SELECT …, or define another stream: CREATE"
        " STREAM … AS SELECT …",
        position=position,
    )
    error.condition, error.sqlstate = TEMPORARY_REFERENCE, _TEMPORARY_REFERENCE_STATE
    return error
