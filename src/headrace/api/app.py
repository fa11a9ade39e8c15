"""The composition root: one FastAPI app over one node."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from headrace import __version__
from headrace.api.auth import authenticate
from headrace.api.http import opensearch_errors, problems
from headrace.api.http.body_limit import BodyLimit
from headrace.api.http.errors import ErrorRenderers, install
from headrace.api.routes import (
    driver_link,
    events,
    health,
    metrics,
    nodes,
    opensearch,
    sessions,
    statements,
    transactions,
)
from headrace.api.waiting import Waiters
from headrace.control.node import Node


def create_app(node: Node) -> FastAPI:
    """The app that serves this node; `app.state.node` is it."""

    app = FastAPI(
        title="Headrace",
        version=__version__,
        description="A durable control plane for SQL on Apache Spark.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.node = node
    app.state.waiters = Waiters(node.database)
    speakers = ErrorRenderers(problems.respond, {opensearch.PREFIX: opensearch_errors.respond})
    app.add_middleware(BodyLimit, speakers=speakers)
    install(app, speakers)
    app.router.routes.append(driver_link.ROUTE)
    guarded = [Depends(authenticate)]
    for room in (sessions, statements, transactions, events, nodes):
        app.include_router(
            room.router,
            prefix="/api/v1",
            dependencies=guarded,
            responses=problems.problems(400, 401, 503),
        )
    app.include_router(opensearch.router, dependencies=guarded)
    app.include_router(metrics.router, dependencies=guarded)
    app.include_router(health.router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The schema without FastAPI's own 422: every invalid request is a 400 here."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        for path in schema["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        shapes = schema["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            shapes.pop(name, None)
        shapes["Problem"] = problems.Problem.model_json_schema()
        app.openapi_schema = schema
    return app.openapi_schema
