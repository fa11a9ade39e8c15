"""The error of a stream or a query that the driver refuses."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException

from headrace.errors import Position, StatementFailed
from headrace.grammar.quoting import unquote_name

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
