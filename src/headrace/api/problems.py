"""Errors as problem+json (RFC 9457): `type`, `title`, `status`, `code`, `detail` and a position."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from headrace.errors import HeadraceError, InvalidRequest

_LOG = logging.getLogger("headrace.api")
MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What an error looks like."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    line: int | None = None
    column: int | None = None
    hint: str | None = None


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": HTTPStatus(status).phrase}
    for status in (400, 401, 404, 406, 409, 410, 413, 503)
}


def problem(error: HeadraceError) -> dict[str, Any]:
    """The body for an error."""
    body: dict[str, Any] = {
        "type": f"urn:headrace:error:{error.code}",
        "title": (type(error).__doc__ or error.code).strip(),
        "status": error.status,
        "code": error.code,
        "detail": error.message,
    }
    if error.position is not None:
        body |= {"line": error.position.line, "column": error.position.column}
    if error.hint is not None:
        body["hint"] = error.hint
    return body


def respond(error: HeadraceError) -> Response:
    """The response for an error."""
    headers = {"WWW-Authenticate": "Bearer"} if error.status == HTTPStatus.UNAUTHORIZED else None
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers = {"Retry-After": "1"}
    return JSONResponse(problem(error), error.status, headers, media_type=MEDIA_TYPE)


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
    return InvalidRequest(" ".join(lines))


def install(app: FastAPI) -> None:
    """Makes every error of the app a problem."""

    async def known(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HeadraceError)
        if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _LOG.error("%s: %s", error.code, error.message)
        return respond(error)

    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return respond(explain(error))

    async def http(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        phrase = HTTPStatus(error.status_code).phrase
        body = {
            "type": "about:blank",
            "title": phrase,
            "status": error.status_code,
            "code": phrase.lower().replace(" ", "_"),
            "detail": str(error.detail),
        }
        return JSONResponse(body, error.status_code, error.headers, media_type=MEDIA_TYPE)

    async def unknown(request: Request, error: Exception) -> Response:
        _LOG.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        return respond(HeadraceError("Something went wrong; the node's log says what."))

    app.add_exception_handler(HeadraceError, known)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unknown)
