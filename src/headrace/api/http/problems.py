"""Errors as problem+json (RFC 9457): `type`, `title`, `status`, `code`, `detail` and a position."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from headrace.api.http.errors import RequestError

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


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These errors as the API's schema describes them."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


def respond(fault: RequestError) -> Response:
    """The response for a fault."""
    body: dict[str, Any] = {
        "type": f"urn:headrace:error:{fault.code}",
        "title": fault.title,
        "status": fault.status,
        "code": fault.code,
        "detail": fault.detail,
    }
    if fault.position is not None:
        body |= {"line": fault.position.line, "column": fault.position.column}
    if fault.hint is not None:
        body["hint"] = fault.hint
    return JSONResponse(body, fault.status, fault.headers, media_type=MEDIA_TYPE)
