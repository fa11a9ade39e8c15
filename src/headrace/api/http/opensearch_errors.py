"""Errors in the format of OpenSearch's async query API.

The form is `{"status": 400, "error": {"type": …, "reason": …, "details": …}}`. Where OpenSearch has
a class for an error, `type` is the name of the class and the status is 400, also for an unknown id.
An error that OpenSearch finds before it calls its plugin has only a text: `{"error": …, "status":
405}`. Source: opensearch-project/OpenSearch, RestController.java.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from headrace.api.http.errors import RequestError
from headrace.api.http.schemas import ResponseModel
from headrace.api.http.strict_json import UnsupportedMediaType
from headrace.errors import AlreadyEnded, InvalidRequest, NotFound, StatementNotFound

PREFIX = "/_plugins/_async_query"
INFO_PATH = "/"


class DatasourceNotFound(NotFound):
    """The datasource does not exist."""

    code = "datasource_not_found"


class TooManyRows(InvalidRequest):
    """The result has more rows than one response may hold."""

    code = "too_many_rows"


class OpenSearchErrorCause(ResponseModel):
    """Class and message of an error."""

    type: str
    """Name of the class of the error in OpenSearch, or in Headrace."""
    reason: str
    """`Invalid Request`, or `There was internal problem at backend`."""
    details: str
    """What happened."""


class OpenSearchError(ResponseModel):
    """An error response."""

    status: int
    """HTTP status."""
    error: OpenSearchErrorCause
    """The cause."""


class OpenSearchRefusal(ResponseModel):
    """An error that OpenSearch finds before it calls its plugin."""

    status: int
    """HTTP status."""
    error: str
    """What is wrong."""


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of these error responses for OpenAPI."""
    return {
        status: {
            "model": OpenSearchRefusal if status in _REFUSALS else OpenSearchError,
            "description": HTTPStatus(status).phrase,
        }
        for status in statuses
    }


def unreadable_result() -> dict[int | str, dict[str, Any]]:
    """Return the description of 406 for a result with a type that the node does not know."""
    status = HTTPStatus.NOT_ACCEPTABLE
    return {status.value: {"model": OpenSearchError, "description": status.phrase}}


_REFUSALS = {HTTPStatus.NOT_ACCEPTABLE}
_JAVA_CLASSES: dict[type[Exception], str] = {
    StatementNotFound: "AsyncQueryNotFoundException",
    DatasourceNotFound: "DataSourceNotFoundException",
    AlreadyEnded: "IllegalStateException",
    InvalidRequest: "IllegalArgumentException",
}


def render_opensearch_error(error: RequestError) -> Response:
    """Return the response for an error."""
    if error.error_class is HTTPException or error.error_class is UnsupportedMediaType:
        return _render_refusal(error)
    status, kind = error.status, error.error_class.__name__
    if error.error_class in _JAVA_CLASSES:
        status, kind = HTTPStatus.BAD_REQUEST, _JAVA_CLASSES[error.error_class]
    is_internal = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    reason = "There was internal problem at backend" if is_internal else "Invalid Request"
    details = error.detail if error.hint is None else f"{error.detail} {error.hint}"
    body = {"status": status, "error": {"type": kind, "reason": reason, "details": details}}
    return JSONResponse(body, status, error.headers)


def _render_refusal(error: RequestError) -> Response:
    """Return the response of OpenSearch to a request that no handler takes."""
    status, text = error.status, error.detail
    request = f"uri [{error.path}] and method [{error.method}]"
    if error.error_class is UnsupportedMediaType:
        status = HTTPStatus.NOT_ACCEPTABLE
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(error.allowed_methods)
        text = f"Incorrect HTTP method for {request}, allowed: [{methods}]"
    elif status == HTTPStatus.NOT_FOUND:
        status, text = HTTPStatus.BAD_REQUEST, f"no handler found for {request}"
    return JSONResponse({"error": text, "status": status}, status, error.headers)
