"""Fields that a request sets and that the store keeps, each described once.

A field is an attribute of a class below, with the name of its column. The field of the request and
of the response, the column of the table, the option of the command and the reference derive from
it. To add a field, add it here, add its column in a migration, and read it where it acts.

Commands import this module at their start: it imports no pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any


class FieldKind(StrEnum):
    """Form of the values of a field."""

    DURATION = "duration"  # `30m` in requests and responses, seconds elsewhere
    COUNT = "count"  # an integer from 1
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestField:
    """The description of a field."""

    key: str
    """Name in requests and responses. With hyphens, the name of the option of the command."""
    text: str
    """Meaning of the field, without a full stop."""
    absent: str = ""
    """What the node does if a request does not have the field; empty: what the type says."""
    null: str = ""
    """What null means in a response; empty: what the type says."""
    help: str
    """Help of the option of the command."""
    example: str | int | None = None
    """Value in the example of the response, if the response has the field."""
    kind: FieldKind = FieldKind.DURATION

    @property
    def request_text(self) -> str:
        """Description in the reference of a request."""
        return f"{self.text}; {self.absent}." if self.absent else f"{self.text}."

    @property
    def response_text(self) -> str:
        """Description in the reference of a response."""
        return f"{self.text}; {self.null}." if self.null else f"{self.text}."

    @property
    def flag(self) -> str:
        """Option of the command."""
        return f"--{self.key.replace('_', '-')}"


def describe_fields(description: type[Any]) -> dict[str, RequestField]:
    """Return the descriptions of the fields of a class below, by the names of their columns."""
    return {each.name: each.metadata["field"] for each in fields(description)}


def _described(description: RequestField) -> Any:
    return field(default=None, metadata={"field": description})


@dataclass(frozen=True, kw_only=True)
class SubmitFields:
    """Fields of a submit."""

    timeout_seconds: float | None = _described(
        RequestField(
            key="timeout",
            text="Longest time that the statement may run",
            help="Cancel a statement that runs longer, e.g. 10m.",
        )
    )
    """Longest time from `started_at`; None: unlimited."""
    queue_timeout_seconds: float | None = _described(
        RequestField(
            key="queue_timeout",
            text="Longest time that the statement may wait before it runs, or before it is retried",
            help="Cancel a statement that waits longer, e.g. 10m.",
        )
    )
    """Longest time in the state `waiting`; None: unlimited."""


@dataclass(frozen=True, kw_only=True)
class SessionFields:
    """Fields of a session, which responses show, too."""

    idle_seconds: float | None = _described(
        RequestField(
            key="idle_timeout",
            text="Idle time after which the session is closed",
            absent="default: the node's setting",
            null="null: never",
            help="Close the session after it was idle for this time, e.g. 30m.",
            example="30m",
        )
    )
    """Idle time after which the session is closed; None: never."""
    ttl_seconds: float | None = _described(
        RequestField(
            key="ttl",
            text="Age at which the session is closed, busy or not",
            absent="default: the node's setting",
            null="null: never",
            help="Close the session this long after its creation, e.g. 1d.",
        )
    )
    """Age at which the session is closed, busy or not; None: never."""
