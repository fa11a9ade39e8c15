"""Column types that store the model's own types, so that a row reads back as what was written."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import JSON, Dialect, Enum, Text
from sqlalchemy.types import TypeDecorator


def identifier() -> Text:
    """Text that sorts by code point on both databases: ids sort by time."""
    return Text().with_variant(Text(collation="C"), "postgresql")


def one_of(members: type[StrEnum], *, check: str | None = None) -> Enum:
    """One of an enum's values, held by a constraint of the name `check` when one is given."""
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

    JSON and not jsonb, which would refuse a NUL in a message of Spark's and reorder keys.
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
