"""The errors of PEP 249, and which of them stands for which error of a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.client.errors import class_of
from headrace.errors import (
    ConnectionNotFound,
    HeadraceError,
    InvalidRequest,
    NotFound,
    NotPermitted,
    ResultGone,
    SettingDenied,
)


class Warning(UserWarning):  # noqa: A001 - the name of PEP 249
    """A remark that concerns a result."""


class ResultTruncated(Warning):
    """A limit has cut off rows of a result."""


class Error(Exception):
    """An error of Headrace. Without text of a statement, `line` and `column` are None."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "client_error",
        sqlstate: str | None = None,
        condition: str | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
        statement_id: str | None = None,
    ) -> None:
        """Create an error.

        Args:
            code: Stable code of the error (docs/reference/errors.md).
            condition: Spark's condition, for example TABLE_OR_VIEW_NOT_FOUND.
            line: Line in the text of the statement, counted from 1, like `column`.
            hint: What to do.
            statement_id: The statement that has failed, or whose rows cannot be read.
        """
        super().__init__(message)
        self.message = message
        self.code = code
        self.sqlstate = sqlstate
        self.condition = condition
        self.line = line
        self.column = column
        self.hint = hint
        self.statement_id = statement_id

    def __str__(self) -> str:
        """Return the message with its code, position and hint."""
        text = f"[{self.code}] {self.message}"
        if self.line is not None:
            text += f" (line {self.line}, column {self.column})"
        return text if self.hint is None else f"{text}\nHint: {self.hint}"


class InterfaceError(Error):
    """The program uses the interface in a wrong way."""


class DatabaseError(Error):
    """The node or Spark reports an error."""


class DataError(DatabaseError):
    """A value does not fit: a division by zero, a number that is too large."""


class OperationalError(DatabaseError):
    """Something outside the program fails: a node, a driver, a limit, a cancel."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """Spark or Headrace fails because of a bug."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: its syntax, a table that does not exist, a missing permission."""


class NotSupportedError(DatabaseError):
    """Headrace or Spark cannot do this."""


_CLASS_OF_SQLSTATE: dict[str, type[DatabaseError]] = {
    "0A": NotSupportedError,
    "21": DataError,
    "22": DataError,
    "23": IntegrityError,
    "42": ProgrammingError,
    "XX": InternalError,
}
"""By the first two characters, the class of a SQLSTATE."""
_PROGRAMMING = (InvalidRequest, NotFound, NotPermitted, SettingDenied)
_OPERATIONAL = (ConnectionNotFound, ResultGone)


def error_of_code(code: str, sqlstate: str | None) -> type[DatabaseError]:
    """Return the class for an error of a node, by its code and its SQLSTATE."""
    named = class_of(code)
    if sqlstate is not None and sqlstate[:2] in _CLASS_OF_SQLSTATE:
        return _CLASS_OF_SQLSTATE[sqlstate[:2]]
    if named is None or issubclass(named, _OPERATIONAL) or not issubclass(named, _PROGRAMMING):
        return OperationalError
    return ProgrammingError


def failure_of(statement: dict[str, Any]) -> DatabaseError:
    """Return the error of a statement that has ended without success, as the API describes it."""
    error = statement["error"] or {}
    state = statement["state"]
    code, sqlstate = error.get("code", state), error.get("sqlstate")
    return error_of_code(code, sqlstate)(
        error.get("message") or f"The statement has ended: {state}.",
        code=code,
        sqlstate=sqlstate,
        condition=error.get("condition"),
        line=error.get("line"),
        column=error.get("column"),
        statement_id=statement["id"],
    )


@contextmanager
def translated(statement_id: str | None = None) -> Iterator[None]:
    """Raise an error of Headrace that the block raises as one of PEP 249."""
    try:
        yield
    except HeadraceError as error:
        position = error.position
        raise error_of_code(error.code, error.sqlstate)(
            error.message,
            code=error.code,
            sqlstate=error.sqlstate,
            condition=error.condition,
            line=None if position is None else position.line,
            column=None if position is None else position.column,
            hint=error.hint,
            statement_id=statement_id,
        ) from error
