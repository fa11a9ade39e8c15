"""Routes of the native API: strict bodies, and no query parameter that the route does not have."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any, Protocol, TypeVar
from urllib.parse import unquote

from fastapi import Path, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Match
from starlette.types import Scope

from headrace.errors import UnknownParameter
from headrace.frontends.http.strict_json import StrictRoute
from headrace.results.json_encoding import NumberFormat

_ESCAPED_SLASH = b"%2f"
_SHOWN = 100
"""Largest number of characters of a name in a message."""
_MAX_SHOWN = 5
"""Largest number of unknown parameters in a message."""


class NamedRoute(APIRoute):
    """A route whose path has names of objects, which may contain a slash."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path of a request. An escaped slash is part of a name, and ends no segment."""
        raw_path: bytes = scope.get("raw_path", b"")
        if _ESCAPED_SLASH not in raw_path.lower():
            return super().matches(scope)
        match, child = super().matches({**scope, "path": raw_path.decode("ascii")})
        names = child.get("path_params", {})
        return match, {**child, "path_params": {key: unquote(text) for key, text in names.items()}}


class ApiRoute(NamedRoute, StrictRoute):
    """A route of `/api/v1`.

    A misspelt parameter would otherwise be ignored, and the caller would get all rows or wait for
    nothing.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of the route, behind the check of the query parameters."""
        handler = super().get_route_handler()
        allowed = sorted(_query_parameters(self.dependant))

        async def handle_known_parameters(request: Request) -> Response:
            if request.scope["query_string"]:
                _check_parameters(request.query_params.keys(), allowed)
            return await handler(request)

        return handle_known_parameters


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        yield parameter.alias
    for dependency in dependant.dependencies:
        yield from _query_parameters(dependency)


def _check_parameters(given: Collection[str], allowed: list[str]) -> None:
    """Raise UnknownParameter for names that are not allowed, with the nearest allowed ones."""
    unknown = sorted(set(given).difference(allowed))
    if not unknown:
        return
    shown = [name[:_SHOWN] for name in unknown[:_MAX_SHOWN]]
    omitted = len(unknown) - len(shown)
    nearest = [match for name in shown for match in difflib.get_close_matches(name, allowed, n=1)]
    suggestion = f"Did you mean {' and '.join(map(repr, dict.fromkeys(nearest)))}? "
    raise UnknownParameter(
        f"Unknown query parameter: {', '.join(map(repr, shown))}"
        + (f" and {omitted} more." if omitted else "."),
        hint=(suggestion if nearest else "")
        + (f"Allowed: {', '.join(allowed)}." if allowed else "This call has no query parameters."),
    )


def json_response(
    body: BaseModel, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a JSON response. The body is serialised once, without FastAPI's second validation."""
    return Response(
        body.model_dump_json(by_alias=True), status, headers, media_type="application/json"
    )


Before = Annotated[
    str | None,
    Query(pattern=r"^[a-z]{2}_[0-9a-f]{32}$", description="the `next` of the previous page"),
]
IdPrefix = Annotated[
    str | None,
    Query(pattern=r"^[a-z]{2}_[0-9a-f]{1,32}$", description="only items whose ids begin with this"),
]
AllOwners = Annotated[
    bool,
    Query(
        description="also objects of other owners, as far as the caller may read them: operators,"
        " auditors and administrators may"
    ),
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


SessionRef = Annotated[str, Path(description="id of the session, or its name while it is live")]
StatementIdPath = Annotated[str, Path(description="id of the statement")]

Numbers = Annotated[
    NumberFormat,
    Query(
        description="bigint and decimal in JSON: `text` sends strings, `plain` sends numbers where "
        "a double holds them exactly, `always` sends numbers"
    ),
]


def wait_seconds(wait: timedelta | None) -> float:
    """Return a `wait_timeout` in seconds."""
    return 0.0 if wait is None else wait.total_seconds()
