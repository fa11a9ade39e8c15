"""Routes of the native API: strict bodies, and no query parameter that the route does not have."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any
from urllib.parse import unquote

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from starlette.routing import Match
from starlette.types import Scope

from headrace.api.http.strict_json import StrictRoute
from headrace.errors import UnknownParameter

_ESCAPED_SLASH = b"%2f"
_SHOWN = 100
"""Largest number of characters of a name in a message."""
_MAX_SHOWN = 5
"""Largest number of unknown parameters in a message."""


class ApiRoute(StrictRoute):
    """A route of `/api/v1`.

    A misspelt parameter would otherwise be ignored, and the caller would get all rows or wait for
    nothing.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path of a request. An escaped slash is part of a name, and ends no segment."""
        raw_path: bytes = scope.get("raw_path", b"")
        if _ESCAPED_SLASH not in raw_path.lower():
            return super().matches(scope)
        match, child = super().matches({**scope, "path": raw_path.decode("ascii")})
        names = child.get("path_params", {})
        return match, {**child, "path_params": {key: unquote(text) for key, text in names.items()}}

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
