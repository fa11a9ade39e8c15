"""Errors of requests, and the choice of the format in which they are rendered."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeGuard

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from headrace.errors import (
    HeadraceError,
    InvalidRequest,
    Position,
    ReachedLimit,
    TooManyCalls,
)
from headrace.frontends.http.refusals import record_refusal

_LOG = logging.getLogger("headrace.api")
_RETRY_AFTER = {HTTPStatus.TOO_MANY_REQUESTS: 5, HTTPStatus.SERVICE_UNAVAILABLE: 1}
"""Seconds after which a client may repeat a refused request, by status, if nothing better is known.
"""
_LONGEST_JITTER = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestError:
    """An error of one request, independent of the format of the response."""

    status: int
    code: str
    title: str
    detail: str
    error_class: type[Exception]
    position: Position | None = None
    hint: str | None = None
    condition: str | None = None
    """Spark's condition for the same error, if Spark has one."""
    sqlstate: str | None = None
    problems: Sequence[dict[str, Any]] = ()
    """The single errors, if the error stands for several."""
    limit: ReachedLimit | None = None
    """The limit that refuses the request, if one does."""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = ""
    path: str = ""
    """Path of the request as it was sent, with its escapes."""
    query: str = ""
    """Query string of the request, as far as the renderer needs it."""
    allowed_methods: Sequence[str] = ()
    """For a path that does not have the method of the request: the methods that it has."""


ErrorRenderer = Callable[[RequestError], Response]


class ErrorRenderers:
    """Renders errors in the format of the API that serves the path."""

    def __init__(
        self,
        default: ErrorRenderer,
        *,
        by_prefix: Mapping[str, ErrorRenderer],
        by_path: Mapping[str, ErrorRenderer],
    ) -> None:
        self._default = default
        self._by_prefix = by_prefix
        self._by_path = by_path

    def respond(
        self,
        scope: Mapping[str, Any],
        error: Exception,
        *,
        method: str = "",
        query: str = "",
        allowed_methods: Sequence[str] = (),
    ) -> Response:
        """Return the response for an error of a request, which the scope of ASGI describes."""
        described = replace(
            describe_error(error),
            method=method,
            path=find_sent_path(scope),
            query=query,
            allowed_methods=allowed_methods,
        )
        return self._find_renderer(scope["path"])(described)

    def _find_renderer(self, path: str) -> ErrorRenderer:
        if path in self._by_path:
            return self._by_path[path]
        for prefix, render in self._by_prefix.items():
            if path.startswith(prefix):
                return render
        return self._default


def find_sent_path(scope: Mapping[str, Any]) -> str:
    """Return the path of a request as it was sent: an escaped slash divides no folders."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path.decode("latin-1")


def describe_error(error: Exception) -> RequestError:
    """Describe an error to the caller. The description of an unexpected error has no details."""
    if isinstance(error, RequestValidationError):
        return _describe(explain_validation_error(error))
    if isinstance(error, HTTPException):
        return _describe_http_exception(error)
    if isinstance(error, HeadraceError):
        return _describe(error)
    return _describe(HeadraceError("The node failed to answer. Its log names the cause."))


def explain_validation_error(error: RequestValidationError) -> InvalidRequest:
    """Return an error that names the wrong fields of a request."""
    lines = []
    for problem in error.errors():
        field_path = ".".join(str(step) for step in problem["loc"][1:]) or str(problem["loc"][0])
        if problem["type"] == "extra_forbidden":
            lines.append(f"Unknown field {field_path!r}.")
        elif problem["type"] == "json_invalid":
            lines.append(f"The body is not valid JSON: {problem['ctx']['error']}.")
        else:
            lines.append(f"{field_path}: {problem['msg'].removeprefix('Value error, ')}.")
    return InvalidRequest(_escape_surrogates(" ".join(lines)))


def install_error_handlers(app: FastAPI, renderers: ErrorRenderers) -> None:
    """Make the app render every error with these renderers."""

    async def handle_expected(request: Request, error: Exception) -> Response:
        if _is_fault_of_node(error):
            _LOG.error("%s: %s", error.code, error.message)
        if isinstance(error, HeadraceError):
            record_refusal(request, error)
        method = request.method
        if not _is_unknown_method(error):
            return renderers.respond(request.scope, error, method=method)
        allowed = sorted(_allowed_methods(request))
        response = renderers.respond(request.scope, error, method=method, allowed_methods=allowed)
        response.headers["Allow"] = ", ".join(allowed)
        return response

    async def handle_disconnect(_request: Request, _error: Exception) -> Response:
        # The client has disconnected before the end of its body, and receives no response.
        return Response(status_code=HTTPStatus.BAD_REQUEST)

    async def handle_unexpected(request: Request, error: Exception) -> Response:
        _LOG.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        return renderers.respond(request.scope, error)

    for kind in (HeadraceError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle_expected)
    app.add_exception_handler(ClientDisconnect, handle_disconnect)
    app.add_exception_handler(Exception, handle_unexpected)


def _is_fault_of_node(error: Exception) -> TypeGuard[HeadraceError]:
    """Return whether the log names an error. A driver must not be able to fill the log."""
    return (
        isinstance(error, HeadraceError)
        and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        and not isinstance(error, TooManyCalls)
    )


def _is_unknown_method(error: Exception) -> bool:
    if not isinstance(error, HTTPException):
        return False
    return error.status_code == HTTPStatus.METHOD_NOT_ALLOWED


def _allowed_methods(request: Request) -> set[str]:
    """Return the methods of a path. Starlette names the methods of only one matching route."""
    return {
        method
        for method in ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
        for route in request.app.routes
        if route.matches({**request.scope, "method": method})[0] is Match.FULL
    }


def _describe(error: HeadraceError) -> RequestError:
    headers = {}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status in _RETRY_AFTER:
        headers["Retry-After"] = str(_choose_retry(error))
    return RequestError(
        status=error.status,
        code=error.code,
        title=(type(error).__doc__ or error.code).strip(),
        detail=error.message,
        error_class=type(error),
        position=error.position,
        hint=error.hint,
        condition=error.condition,
        sqlstate=error.sqlstate,
        problems=error.problems,
        limit=error.limit,
        headers=headers,
    )


def _choose_retry(error: HeadraceError) -> int:
    """Return the seconds for `Retry-After`.

    A limit refuses many clients at once. If they all came back in the same second, the limit would
    refuse them together again.
    """
    seconds = _RETRY_AFTER[HTTPStatus(error.status)]
    if error.retry_seconds is not None:
        seconds = max(1, math.ceil(error.retry_seconds))
    if error.status != HTTPStatus.TOO_MANY_REQUESTS:
        return seconds
    jitter = min(max(seconds, _RETRY_AFTER[HTTPStatus.TOO_MANY_REQUESTS]), _LONGEST_JITTER)
    return seconds + random.randint(0, jitter)  # noqa: S311 - no secret


def _describe_http_exception(error: HTTPException) -> RequestError:
    """Describe a refusal of the framework: an unknown path or method, or an unreadable body."""
    if isinstance(error.__cause__, HeadraceError):
        # FastAPI wraps an error that is raised while the body is read.
        return _describe(error.__cause__)
    phrase = HTTPStatus(error.status_code).phrase
    return RequestError(
        status=error.status_code,
        code=phrase.lower().replace(" ", "_"),
        title=phrase,
        detail=str(error.detail),
        error_class=type(error),
        headers=error.headers or {},
    )


def _escape_surrogates(text: str) -> str:
    """Escape unpaired surrogates, which JSON can express and UTF-8 cannot."""
    return text.encode("utf-8", "backslashreplace").decode()
