"""Column types that store the model's own types."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import JSON, Dialect, Enum, Text
from sqlalchemy.types import TypeDecorator

_LOG = logging.getLogger("headrace.store")


def _none() -> None:
    return None


def id_type() -> Text:
    """Return a text type that sorts by code point on both databases, so that ids sort by time."""
    return Text().with_variant(Text(collation="C"), "postgresql")


class OpenEnum(Enum):
    """The values of an enum as text. A value that is not a member is read as the text itself.

    A newer node that shares the store may write such values during a rolling upgrade.
    """

    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: Any) -> Callable[[Any], Any]:
        """Return the function that converts a value of the database."""
        to_member = super().result_processor(dialect, coltype)  # type: ignore[no-untyped-call]

        def to_member_or_text(value: Any) -> Any:
            try:
                return to_member(value)
            except LookupError:
                return value

        return to_member_or_text


def enum_type(members: type[StrEnum], *, check: str | None = None, length: int = 16) -> OpenEnum:
    """Return a text type for the values of an enum.

    Args:
        check: Name of a check constraint that enforces the values; None: no constraint.
    """
    return OpenEnum(
        members,
        name=check,
        native_enum=False,
        create_constraint=check is not None,
        length=length,
        values_callable=lambda enum: [member.value for member in enum],
    )


class Document(TypeDecorator[Any]):
    """A pydantic type as JSON text; None is NULL.

    A document that is not valid is read as the fallback, so that one bad row never hides others.

    The type is json and not jsonb: jsonb refuses a NUL character in a message from Spark, and
    reorders keys.
    """

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, shape: Any, make_fallback: Callable[[], Any] = _none) -> None:
        super().__init__()
        self.shape = shape
        self.make_fallback = make_fallback
        self._adapter: TypeAdapter[Any] = TypeAdapter(shape)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return None if value is None else self._adapter.dump_python(value, mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        if value is None:
            return None
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            _LOG.error("a stored %s is not valid: %s", self.shape, error.errors()[0]["msg"])
            return self.make_fallback()
