"""Why a statement or session failed, as it is stored and shown."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from headrace.errors import HeadraceError
from headrace.model.text import MAX_SUMMARY, Code, MessageText, Name, SmallCount, cut_text

SYNTAX_ERROR = "syntax_error"
ANALYSIS_ERROR = "analysis_error"
EXECUTION_ERROR = "execution_error"
SPARK_CODES = frozenset({SYNTAX_ERROR, ANALYSIS_ERROR, EXECUTION_ERROR})
"""Codes of the errors of Spark, which are no classes of `headrace.errors`."""


class Failure(BaseModel):
    """A structured error. Spark's errors are identified by condition and SQLSTATE."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    code: Code
    """Stable code of the error."""
    message: MessageText
    """What happened."""
    condition: Name | None = None
    """Spark's error condition, for example TABLE_OR_VIEW_NOT_FOUND."""
    sqlstate: Name | None = None
    """SQLSTATE of the error, if it has one."""
    line: SmallCount | None = None
    """Line in the user's text, counted from 1."""
    column: SmallCount | None = None
    """Column in the user's text, counted from 1, in code points."""
    trace: MessageText | None = None
    """Stack trace, shown on request only."""

    @property
    def text(self) -> str:
        """The message as Spark writes it: after the error condition, if the error has one."""
        return self.message if self.condition is None else f"[{self.condition}] {self.message}"

    def describe(self) -> str:
        """Return the text, with the position in the user's text if it is known."""
        if self.line is None or self.column is None:
            return self.text
        return f"{self.text} (line {self.line}, column {self.column})"

    def summarize(self) -> Failure:
        """Return the failure for a list: with a short message, and without the trace."""
        return self.model_copy(
            update={"message": cut_text(self.message, MAX_SUMMARY), "trace": None}
        )

    @classmethod
    def with_hint(cls, error: HeadraceError) -> Failure:
        """Return the record of an error, with its hint at the end of the message."""
        failure = cls.of(error)
        if error.hint is None:
            return failure
        return failure.model_copy(update={"message": f"{error.message} {error.hint}"})

    @classmethod
    def of(cls, error: HeadraceError) -> Failure:
        """Return the record of one of Headrace's own errors."""
        position = error.position
        return cls(
            code=error.code,
            message=error.message,
            condition=error.condition,
            sqlstate=error.sqlstate,
            line=position.line if position else None,
            column=position.column if position else None,
        )
