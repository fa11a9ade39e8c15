"""Errors as OpenSearch's async query API tells them, on every path below it.

`{"status": 400, "error": {"type": …, "reason": …, "details": …}}`. Where that API has a class for
a fault, `type` is its name and the status is 400, also for an id that is not known.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from headrace.api.http.errors import RequestError
from headrace.errors import AlreadyEnded, InvalidRequest, NotFound, StatementNotFound


class DatasourceNotFound(NotFound):
    """There is no such datasource."""

    code = "datasource_not_found"


class TooManyRows(InvalidRequest):
    """The result has more rows than one answer may hold."""

    code = "too_many_rows"


class OpenSearchErrorCause(BaseModel):
    type: str
    reason: str
    details: str


class OpenSearchError(BaseModel):
    """What an error looks like here."""

    status: int
    error: OpenSearchErrorCause


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These errors as the API's schema describes them."""
    return {
        status: {"model": OpenSearchError, "description": HTTPStatus(status).phrase}
        for status in statuses
    }


_OWN_CLASSES: dict[type[Exception], str] = {
    StatementNotFound: "AsyncQueryNotFoundException",
    DatasourceNotFound: "DataSourceNotFoundException",
    AlreadyEnded: "IllegalStateException",
    InvalidRequest: "IllegalArgumentException",
}


def respond(fault: RequestError) -> Response:
    """The response for a fault."""
    status, kind = fault.status, fault.error.__name__
    if fault.error in _OWN_CLASSES:
        status, kind = HTTPStatus.BAD_REQUEST, _OWN_CLASSES[fault.error]
    own = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    reason = "There was internal problem at backend" if own else "Invalid Request"
    details = fault.detail if fault.hint is None else f"{fault.detail} {fault.hint}"
    body = {"status": status, "error": {"type": kind, "reason": reason, "details": details}}
    return JSONResponse(body, status, fault.headers)
