"""An error as any of the APIs tells it, and which of them speaks on a path."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from headrace.errors import HeadraceError, InvalidRequest, Position

_LOG = logging.getLogger("headrace.api")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestError:
    """What went wrong with a request."""

    status: int
    code: str
    title: str
    detail: str
    error: type[Exception]
    """Its class."""
    position: Position | None = None
    hint: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


ErrorRenderer = Callable[[RequestError], Response]


class ErrorRenderers:
    """Who puts faults into words: each API in its own form, told by the path's beginning."""

    def __init__(self, default: ErrorRenderer, others: Mapping[str, ErrorRenderer]) -> None:
        self._default = default
        self._others = others

    def respond(self, path: str, error: Exception) -> Response:
        """The response for an error."""
        for prefix, speaker in self._others.items():
            if path.startswith(prefix):
                return speaker(describe_error(error))
        return self._default(describe_error(error))


def describe_error(error: Exception) -> RequestError:
    """What an error means for the caller. One that nobody foresaw tells nothing of itself."""
    if isinstance(error, RequestValidationError):
        return _known(explain(error))
    if isinstance(error, HTTPException):
        return _http(error)
    if isinstance(error, HeadraceError):
        return _known(error)
    return _known(HeadraceError("Something went wrong; the node's log says what."))


def explain(error: RequestValidationError) -> InvalidRequest:
    """Which fields of a request are wrong, and how."""
    lines = []
    for one in error.errors():
        place = ".".join(str(step) for step in one["loc"][1:]) or str(one["loc"][0])
        if one["type"] == "extra_forbidden":
            lines.append(f"Unknown field {place!r}.")
        elif one["type"] == "json_invalid":
            lines.append(f"The body is no valid JSON: {one['ctx']['error']}.")
        else:
            lines.append(f"{place}: {one['msg'].removeprefix('Value error, ')}.")
    return InvalidRequest(_printable(" ".join(lines)))


def install(app: FastAPI, speakers: ErrorRenderers) -> None:
    """Makes every error of the app a fault that its API tells."""

    async def known(request: Request, error: Exception) -> Response:
        if isinstance(error, HeadraceError) and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _LOG.error("%s: %s", error.code, error.message)
        response = speakers.respond(request.url.path, error)
        if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = ", ".join(sorted(_methods(request)))
        return response

    async def unknown(request: Request, error: Exception) -> Response:
        _LOG.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        return speakers.respond(request.url.path, error)

    for kind in (HeadraceError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, known)
    app.add_exception_handler(Exception, unknown)


def _methods(request: Request) -> set[str]:
    """What may be done on a path: the framework names the methods of one of its routes only."""
    return {
        method
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        for route in request.app.routes
        if route.matches({**request.scope, "method": method})[0] is Match.FULL
    }


def _known(error: HeadraceError) -> RequestError:
    headers = {}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return RequestError(
        status=error.status,
        code=error.code,
        title=(type(error).__doc__ or error.code).strip(),
        detail=error.message,
        error=type(error),
        position=error.position,
        hint=error.hint,
        headers=headers,
    )


def _http(error: HTTPException) -> RequestError:
    """What the framework refuses: unknown paths and methods, bodies that cannot be read."""
    if isinstance(error.__cause__, HeadraceError):
        # FastAPI wraps what reading a body raises.
        return _known(error.__cause__)
    phrase = HTTPStatus(error.status_code).phrase
    return RequestError(
        status=error.status_code,
        code=phrase.lower().replace(" ", "_"),
        title=phrase,
        detail=str(error.detail),
        error=type(error),
        headers=error.headers or {},
    )


def _printable(text: str) -> str:
    """Half a surrogate pair, which JSON can spell and UTF-8 cannot, as an escape."""
    return text.encode("utf-8", "backslashreplace").decode()
