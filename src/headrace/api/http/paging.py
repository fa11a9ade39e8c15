"""Lists: `{items, next}`, newest first, where `next` goes into `before` of the next request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from fastapi import Query

Before = Annotated[str | None, Query(pattern=r"^[a-z]{2}_[0-9a-f]{32}$")]
Limit = Annotated[int, Query(ge=1, le=1000)]


class Identified(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Identified)


def page_end(found: Sequence[T], limit: int) -> tuple[Sequence[T], str | None]:
    """Splits what was asked for with one to spare: the page, and where the next begins."""
    items = found[:limit]
    return items, items[-1].id if len(found) > limit else None
