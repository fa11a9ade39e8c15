"""Pages of bounded size: rows can hold long texts, so the number of rows alone bounds nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, ColumnElement, Select, Text, cast, func

from headrace.store.database import Tx

_PAGE_CHARACTERS = 4 * 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The rows of one page, and whether more rows follow."""

    items: list[T]
    more: bool


def starts_with(column: Column[Any], prefix: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions for ids that begin with a prefix of hex digits; none for None.

    They are a range, for which an index of the column is used on both databases.
    """
    return [] if prefix is None else [column >= prefix, column < prefix + "g"]


def length_of(column: Column[Any]) -> ColumnElement[int]:
    """Return the expression for the characters of a JSON column; 0 for NULL."""
    return func.coalesce(func.length(cast(column, Text)), 0)


def count_within_budget(tx: Tx, sizes: Select[tuple[int]], limit: int) -> tuple[int, bool]:
    """Return how many of the first rows fit on a page, and whether more rows follow.

    Args:
        sizes: Query for the characters of each row, in the order of the page.
    """
    counted = tx.execute(sizes.limit(limit + 1)).scalars().all()
    total = 0
    for number, size in enumerate(counted[:limit]):
        total += size
        if number and total > _PAGE_CHARACTERS:
            return number, True
    return min(len(counted), limit), len(counted) > limit
