"""The root class of all errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CONNECTION = 3
EXIT_TIMEOUT = 4
EXIT_DENIED = 5
EXIT_CONFLICT = 6


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the user's text. Both numbers count from 1; columns are code points."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLimit:
    """The limit that refuses a request."""

    name: str
    """What is limited, for example `sessions`."""
    owner: str | None
    """Whose use is limited; None: that of all owners together."""
    value: int | str
    """The limit: a number, or a duration such as `1h`."""
    used: int | None
    """The present use; None: nothing is counted."""
    setting: str
    """Setting by which an administrator changes the limit."""


class HeadraceError(Exception):
    """An internal error occurred in Headrace."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = EXIT_FAILED
    condition: str | None = None
    """Spark's condition for the same error, if Spark has one. An error may differ from its class.
    """
    sqlstate: str | None = None
    is_foreign: bool = False
    """Whether the object exists and belongs to another owner. Only the audit says so."""
    limit: ReachedLimit | None = None
    """The limit that refuses the request, if one does."""
    retry_seconds: float | None = None
    """Time after which the same request may succeed; None: not known."""

    def __init__(
        self,
        message: str | None = None,
        *,
        position: Position | None = None,
        hint: str | None = None,
        problems: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Create an error.

        Args:
            problems: The single errors, if the error stands for several: each with `path`, `line`,
                `column`, `code`, `message` and `hint`.
        """
        self.message = message or (type(self).__doc__ or "").strip()
        self.problems = list(problems)
        self.position = position
        self.hint = hint
        super().__init__(self.message)

    def with_condition(self, condition: str | None, sqlstate: str | None) -> Self:
        """Give this error the condition and the SQLSTATE of another error of Spark; return it."""
        self.condition, self.sqlstate = condition, sqlstate
        return self

    def with_limit(self, limit: ReachedLimit, *, retry_seconds: float | None = None) -> Self:
        """Name the limit that refuses the request. Return the error."""
        self.limit, self.retry_seconds = limit, retry_seconds
        return self
