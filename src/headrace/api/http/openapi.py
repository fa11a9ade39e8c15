"""The OpenAPI document, completed with what FastAPI does not derive from the routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from headrace.api.auth import PUBLIC_PATHS, SECURITY_SCHEMES
from headrace.api.http.examples import BODIES, TEXTS
from headrace.api.http.problems import Problem

Json = dict[str, Any]

DESCRIPTION = """A durable control plane for SQL on Apache Spark.

Lists are `{items, next}`. Errors are problem documents (RFC 9457) with a stable `code`. Instants
are UTC, in RFC 3339 with microseconds. Requests give durations as texts with a unit, for example
`30m`. Requests with unknown fields or unknown query parameters are refused."""
_TAGS = {
    "sessions": "Contexts in which statements run, each with a Spark driver.",
    "statements": "Submit SQL, follow it, cancel it, and read its rows.",
    "streams": "Streaming queries, and their control.",
    "jobs": "Deploy manifests of jobs, and control the jobs.",
    "transactions": "Tables that `CREATE TABLE … AS SELECT` publishes as a whole.",
    "events": "Every change of state, as a list or as a stream.",
    "nodes": "The nodes of the cluster.",
    "opensearch": "The API of OpenSearch's asynchronous queries, for its clients.",
    "health": "State and metrics of the node.",
}
_NO_DESCRIPTION = "Successful Response"
"""What FastAPI writes for a response without a description."""
_JSON_VALUE = "Any JSON value."


def build_document(app: FastAPI) -> Json:
    """Return the OpenAPI document of the app.

    Every operation, parameter and response has a description, and every body an example. FastAPI's
    own 422 is left out: an invalid request is a 400.
    """
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
    )
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema()
    schemas["JsonValue"]["description"] = _JSON_VALUE
    for name, examples in BODIES.items():
        schemas[name]["examples"] = examples
    for path, operation in _operations(document):
        operation["responses"].pop("422", None)
        operation["summary"] = " ".join(operation["description"].partition(".")[0].split())
        if path not in PUBLIC_PATHS:
            operation["security"] = [{name: [] for name in SECURITY_SCHEMES}]
        for response in operation["responses"].values():
            _complete_response(operation["operationId"], response, schemas)
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    return document


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
