"""Pages of lists: `{items, next}`, newest first; `next` is the `before` of the next request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from fastapi import Query

Before = Annotated[
    str | None,
    Query(pattern=r"^[a-z]{2}_[0-9a-f]{32}$", description="the `next` of the previous page"),
]
IdPrefix = Annotated[
    str | None,
    Query(pattern=r"^[a-z]{2}_[0-9a-f]{1,32}$", description="only items whose ids begin with this"),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="largest number of items")]


class Identified(Protocol):
    """An item of a list."""

    @property
    def id(self) -> str:
        """Id, by which the list is sorted."""


T = TypeVar("T", bound=Identified)


def split_page(items: Sequence[T], limit: int) -> tuple[Sequence[T], str | None]:
    """Split a list that was read with one item more than the limit.

    Returns:
        The items of the page, and the `next` cursor; None if the page is the last.
    """
    page = items[:limit]
    return page, page[-1].id if len(items) > limit else None
