"""Errors as problem+json (RFC 9457): `type`, `title`, `status`, `code`, `detail` and a position."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from headrace.frontends.http.errors import RequestError
from headrace.frontends.rest.schemas import ResponseModel

MEDIA_TYPE = "application/problem+json"


class Problem(ResponseModel):
    """An error response."""

    type: str
    """`urn:headrace:error:<code>`."""
    title: str
    """The error in general."""
    status: int
    """HTTP status."""
    code: str
    """Stable code of the error."""
    detail: str
    """What happened in this request."""
    line: int | None = None
    """Line in the text of the statement, counted from 1."""
    column: int | None = None
    """Column in the text of the statement, counted from 1, in code points."""
    hint: str | None = None
    """What to do."""
    condition: str | None = None
    """Spark's condition for the same error, for example PARSE_SYNTAX_ERROR."""
    sqlstate: str | None = None
    """Spark's SQLSTATE for the same error."""
    problems: list[dict[str, Any]] | None = None
    """The single errors of a request with several files: `path`, `line`, `column`, `code`,
    `message` and `hint` of each."""
    limit: dict[str, Any] | None = None
    """The limit that refuses the request: its `name`, the `owner` whose use it limits (null: all
    owners together), its `value`, the present use `used` (null: nothing is counted), who can change
    it (`changed_by`), and by which `setting`."""


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of these error responses for OpenAPI."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


def render_problem(error: RequestError) -> Response:
    """Return the response for an error."""
    body: dict[str, Any] = {
        "type": f"urn:headrace:error:{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
    }
    if error.position is not None:
        body |= {"line": error.position.line, "column": error.position.column}
    if error.hint is not None:
        body["hint"] = error.hint
    if error.condition is not None:
        body["condition"] = error.condition
    if error.sqlstate is not None:
        body["sqlstate"] = error.sqlstate
    if error.limit is not None:
        body["limit"] = asdict(error.limit) | {"changed_by": "administrator"}
    if error.problems:
        body["problems"] = list(error.problems)
    return JSONResponse(body, error.status, error.headers, media_type=MEDIA_TYPE)
