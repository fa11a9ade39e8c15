"""Turns errors of Python and the JVM into structured failures.

Spark's own errors are identified by their condition and SQLSTATE. Positions come from Spark's
parser, which keeps them with every expression. A failure has a position only if the position refers
to the user's text. An error inside the text of a view or of an EXECUTE IMMEDIATE has none, nor has
an error in a text with substituted `${…}`.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import (
    AnalysisException,
    ParseException,
    PySparkException,
)

from headrace.driver.spark_version.errors import (
    convert_java_error,
    explain_headline,
    find_headline,
    find_position,
    format_trace,
    unwrap_error,
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
    spark_error = unwrap_error(error)
    trace = format_trace(error, spark_error)
    if not isinstance(spark_error, PySparkException):
        message = find_headline(f"{type(spark_error).__name__}: {spark_error}")
        return Failure(code=EXECUTION_ERROR, message=message, trace=trace)
    refusal = _REFUSED_SETTING.search(str(spark_error))
    condition, sqlstate = spark_error.getCondition(), spark_error.getSqlState()
    if refusal is not None and condition is None:
        return _describe_refused_setting(refusal, text)
    position = find_position(spark_error, text)
    return Failure(
        code=_failure_code(spark_error),
        message=explain_headline(spark_error, _extract_message(spark_error, condition, sqlstate)),
        condition=condition,
        sqlstate=sqlstate,
        line=position.line if position else None,
        column=position.column if position else None,
        trace=trace,
    )


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
    return describe_failure(convert_java_error(java_error), "")


def find_condition(error: Exception) -> str | None:
    """Return the condition of a Spark error, or of its first cause with a condition, or None."""
    spark_error = unwrap_error(error)
    return spark_error.getCondition() if isinstance(spark_error, PySparkException) else None


def find_sqlstate(error: Exception) -> str | None:
    """Return the SQLSTATE of the error whose condition `find_condition` returns, or None."""
    spark_error = unwrap_error(error)
    return spark_error.getSqlState() if isinstance(spark_error, PySparkException) else None


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


_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_PART = re.compile(r"`(?:[^`]|``)+`")
TEMPORARY_REFERENCE = ("INVALID_TEMP_OBJ_REFERENCE", "42K0F")
"""Spark's condition and SQLSTATE for a permanent object that reads a temporary one."""


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
    return InvalidStream(
        f"A permanent view cannot read {name}, because {reason}: other users and sessions do not"
        " have it. Write CREATE TEMPORARY VIEW … AS SELECT …, or define another stream: CREATE"
        " STREAM … AS SELECT …",
        position=position,
    ).with_condition(*TEMPORARY_REFERENCE)
