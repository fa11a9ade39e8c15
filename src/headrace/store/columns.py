"""Column types that store the model's own types."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import JSON, Dialect, Enum, Text
from sqlalchemy.types import TypeDecorator


def id_type() -> Text:
    """Return a text type that sorts by code point on both databases, so that ids sort by time."""
    return Text().with_variant(Text(collation="C"), "postgresql")


def enum_type(members: type[StrEnum], *, check: str | None = None) -> Enum:
    """Return a text type for the values of an enum.

    Args:
        check: Name of a check constraint that enforces the values; None: no constraint.
    """
    return Enum(
        members,
        name=check,
        native_enum=False,
        create_constraint=check is not None,
        length=16,
        values_callable=lambda enum: [member.value for member in enum],
    )


class Document(TypeDecorator[Any]):
    """A pydantic type as JSON text; None is NULL.

    The type is json and not jsonb: jsonb refuses a NUL character in a message from Spark, and
    reorders keys.
    """

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.shape = shape
        self._adapter: TypeAdapter[Any] = TypeAdapter(shape)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return None if value is None else self._adapter.dump_python(value, mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return None if value is None else self._adapter.validate_python(value)
