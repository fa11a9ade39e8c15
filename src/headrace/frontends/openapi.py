"""The OpenAPI document, completed with what FastAPI does not derive from the routes."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from headrace.frontends.http.auth import PUBLIC_PATHS, SECURITY_SCHEMES
from headrace.frontends.livy import sessions as livy_sessions
from headrace.frontends.opensearch import async_query
from headrace.frontends.rest.examples import BODIES, TEXTS
from headrace.frontends.rest.problems import MEDIA_TYPE as PROBLEM_MEDIA_TYPE
from headrace.frontends.rest.problems import Problem
from headrace.frontends.rest.schemas import EXAMPLES

Json = dict[str, Any]

DESCRIPTION = """A durable control plane for SQL on Apache Spark.

Lists are `{items, next}`. Errors are problem documents (RFC 9457) with a stable `code`. Instants
are UTC, in RFC 3339 with microseconds. Requests give durations as texts with a unit, for example
`30m`, between `x-minimum` and `x-maximum` of the field. Integers of requests are at most 2^53 - 1,
and may be written as `10.0`. Requests with unknown fields or unknown query parameters are
refused."""
SERVER_ERRORS = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE})
"""Errors that the server answers without a body, before it has read a request."""
COMMON_ERRORS = SERVER_ERRORS | {
    HTTPStatus.BAD_REQUEST,  # an unknown parameter, an invalid value, several Host headers
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,  # a page of another site
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.MISDIRECTED_REQUEST,
    HTTPStatus.TOO_MANY_REQUESTS,  # sign-ins of this name or address have failed
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,  # the store does not answer, or there are too many connections
}
"""Errors that every call can answer. Public calls need no token."""
_LIMITS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_VALUES = {"example", "examples", "default", "enum", "const"}
"""Keywords whose values are no schemas."""
_MAX_INT32 = 2**31 - 1
_NO_DESCRIPTION = "Successful Response"
"""What FastAPI writes for a response without a description."""
_JSON_VALUE = "Any JSON value."


def build_document(app: FastAPI, tags: dict[str, str]) -> Json:
    """Return the OpenAPI document of the app, with the descriptions of its tags.

    Every operation, parameter and response has a description, and every body an example. FastAPI's
    own 422 is left out: an invalid request is a 400.
    """
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in tags.items()],
    )
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema()
    schemas["JsonValue"]["description"] = _JSON_VALUE
    for name, examples in (BODIES | EXAMPLES).items():
        schemas[name]["examples"] = examples
    for path, operation in _operations(document):
        operation["responses"].pop("422", None)
        operation["summary"] = " ".join(operation["description"].partition(".")[0].split())
        if path not in PUBLIC_PATHS:
            operation["security"] = [{name: []} for name in SECURITY_SCHEMES]
        _add_common_errors(path, operation)
        for response in operation["responses"].values():
            _complete_response(operation["operationId"], response, schemas)
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    _complete_integers(document)
    return document


def _add_common_errors(path: str, operation: Json) -> None:
    """Add the errors that middleware, the server or an outage can answer to every request."""
    is_opensearch = path == async_query.INFO_PATH or path.startswith(async_query.PREFIX)
    schema, media_type = "Problem", PROBLEM_MEDIA_TYPE
    if is_opensearch:
        schema, media_type = "OpenSearchError", "application/json"
    elif path.startswith(livy_sessions.PREFIX):
        schema, media_type = "LivyError", "application/json"
    statuses = {*COMMON_ERRORS}
    if path in PUBLIC_PATHS:
        statuses -= {HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS}
    responses = operation["responses"]
    for status in statuses:
        described: Json = {"description": status.phrase}
        if status not in SERVER_ERRORS:
            reference = {"$ref": f"#/components/schemas/{schema}"}
            described["content"] = {media_type: {"schema": reference}}
        responses.setdefault(str(status.value), described)
    operation["responses"] = dict(sorted(responses.items()))


def _complete_integers(described: Any) -> None:
    """Write the limits of integers as integers, and their sizes, in a part of the document."""
    if isinstance(described, list):
        for part in described:
            _complete_integers(part)
    if not isinstance(described, dict):
        return
    for name, part in described.items():
        if name not in _VALUES:
            _complete_integers(part)
    if described.get("type") != "integer":
        return
    for limit in _LIMITS & described.keys():
        described[limit] = int(described[limit])
    is_small = described.get("maximum", _MAX_INT32 + 1) <= _MAX_INT32
    described.setdefault("format", "int32" if is_small else "int64")


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, operations in document["paths"].items():
        for operation in operations.values():
            yield path, operation


def _complete_response(operation: str, response: Json, schemas: Json) -> None:
    """Add the example of a text, and the description of the body unless there is one."""
    for media_type, content in response.get("content", {}).items():
        if (operation, media_type) in TEXTS:
            content["example"] = TEXTS[operation, media_type]
        reference = content.get("schema", {}).get("$ref", "")
        if response["description"] == _NO_DESCRIPTION and reference:
            schema = schemas[reference.rpartition("/")[2]]
            response["description"] = " ".join(schema["description"].split("\n\n")[0].split())
