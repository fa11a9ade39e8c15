"""The servers of one node, and its FastAPI app."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

from anyio import CapacityLimiter
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from headrace import __version__
from headrace.control.node import Node
from headrace.frontends import driver_link
from headrace.frontends.driver_link import BatchedRenewals, LinkCalls
from headrace.frontends.hiveserver2 import http as hiveserver2_http
from headrace.frontends.hiveserver2.binary import HiveServer2Server
from headrace.frontends.http.allowed_hosts import AllowedHosts
from headrace.frontends.http.auth import (
    API_PREFIX,
    SIGN_IN_THREADS,
    WEB_PREFIX,
    Authentication,
)
from headrace.frontends.http.body_limit import BodyLimit
from headrace.frontends.http.browser_rules import BrowserRules, read_origins
from headrace.frontends.http.errors import ErrorRenderers, install_error_handlers
from headrace.frontends.http.refusals import AuthenticationFailures
from headrace.frontends.http.request_metrics import RequestMetrics
from headrace.frontends.http.server import HttpServer
from headrace.frontends.http.tls import ServerTls
from headrace.frontends.livy import batches as livy_batches
from headrace.frontends.livy import sessions as livy_sessions
from headrace.frontends.livy.sessions import PREFIX as LIVY_PREFIX
from headrace.frontends.livy.sessions import render_livy_error
from headrace.frontends.openapi import DESCRIPTION, build_document
from headrace.frontends.opensearch import async_query
from headrace.frontends.opensearch.async_query import INFO_PATH as OPENSEARCH_INFO_PATH
from headrace.frontends.opensearch.async_query import PREFIX as OPENSEARCH_PREFIX
from headrace.frontends.opensearch.async_query import render_opensearch_error
from headrace.frontends.rest.event_feed import EventFeed
from headrace.frontends.rest.problems import render_problem
from headrace.frontends.rest.routes import (
    audit,
    connections,
    docs,
    events,
    expectations,
    health,
    history,
    jobs,
    lineage,
    nodes,
    quota,
    results,
    runs,
    sessions,
    sign_in,
    statements,
    streams,
    tokens,
    transactions,
    users,
    webhooks,
)
from headrace.frontends.rest.routes.health import Readiness
from headrace.frontends.servers import Server, Servers
from headrace.frontends.web import (
    catalog_pages,
    cluster_pages,
    draft_pages,
    editor_pages,
    job_pages,
    log_pages,
    result_pages,
    run_pages,
    session_pages,
    statement_pages,
    stream_pages,
    view_pages,
    webhook_pages,
)
from headrace.frontends.web import sign_in as web_sign_in
from headrace.frontends.web.rendering import REFRESHES, render_page_error

_CORS_HEADERS = ["Authorization", "Idempotency-Key", "Last-Event-ID"]
"""Headers that pages of `http.allowed_origins` may send, besides those that CORS always allows."""
_EXPOSED_HEADERS = [
    *("Allow", "Location", "Retry-After"),
    *("X-Headrace-Truncated", "X-Headrace-Next-Offset"),
]
"""Headers of responses that such pages may read."""


def create_servers(node: Node, listener: socket.socket, tls: ServerTls | None = None) -> Servers:
    """Return the servers of a node: that of HTTP, on a socket that listens already.

    Args:
        tls: Certificate of the node; None: it speaks HTTP.

    Raises InvalidSetting as `create_app` does.
    """
    http = HttpServer(create_app(node, tls), node.settings.http, listener, tls)
    servers: list[Server] = [http]
    port = node.settings.hiveserver2.port
    if port is not None:
        context = None if tls is None else tls.context
        servers.append(HiveServer2Server(node, node.settings.http.host, port, context))
    flight_port = node.settings.flight_sql.port
    if flight_port is not None:
        # gRPC takes a second to import.
        from headrace.frontends.flight_sql.server import FlightSqlServer  # noqa: PLC0415

        host, settings = node.settings.http.host, node.settings.tls
        servers.append(FlightSqlServer(node, host, flight_port, settings))
    return Servers(node, servers, loop_factory=http.loop_factory)


_RESOURCES = {
    "sessions": (
        "Contexts in which statements run, each with a Spark driver.",
        [sessions.router],
    ),
    "connections": (
        "Spark sessions of clients, which share the driver of the pool session of their owner.",
        [connections.router],
    ),
    "statements": (
        "Submit SQL, follow it, cancel it, and read its rows.",
        [statements.router, results.router],
    ),
    "streams": ("Streaming queries, and their control.", [streams.router]),
    "jobs": ("Deploy manifests of jobs, and control the jobs.", [jobs.router]),
    "runs": (
        "The runs of batch jobs, one for each logical time.",
        [runs.router, expectations.router],
    ),
    "lineage": ("The tables that statements read and write.", [lineage.router]),
    "transactions": (
        "Tables that `CREATE TABLE … AS SELECT` publishes as a whole.",
        [transactions.router, transactions.recovery_router],
    ),
    "events": ("Every change of state, as a list or as a stream.", [events.router]),
    "sign-in": ("Where users sign in, and who calls.", [sign_in.router]),
    "tokens": ("Tokens with which programs act for their owners.", [tokens.router]),
    "webhooks": ("HTTP endpoints that receive events.", [webhooks.router]),
    "users": ("Who has signed in.", [users.router]),
    "audit": ("Who did, read, or was refused what.", [audit.router]),
    "quota": ("What an owner may use, and what it uses.", [quota.router]),
    "nodes": ("The nodes of the cluster.", [nodes.router]),
    "history": ("The deletion of old history.", [history.router]),
}
"""Description and routers of each tag of the native API."""
_TAGS = {name: text for name, (text, _) in _RESOURCES.items()} | {
    "opensearch": "The API of OpenSearch's asynchronous queries, for its clients.",
    "livy": "Livy's REST API for SQL, for its clients.",
    "health": "State and metrics of the node.",
}


def create_app(node: Node, tls: ServerTls | None = None) -> FastAPI:
    """Return the app that serves a node. Routes find the node in `app.state.node`.

    Raises:
        InvalidSetting: If `http.allowed_hosts` has an entry that is not a host, or
            `http.allowed_origins` one that is not an origin.
    """
    app = FastAPI(
        title="Headrace",
        version=__version__,
        description=DESCRIPTION,
        generate_unique_id_function=lambda route: route.name,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A redirect would name the host that the request chose.
        redirect_slashes=False,
    )
    app.state.node = node
    app.state.tls = tls
    app.state.event_feed = EventFeed(
        node.events.shared_reads, node.wake_ups.on_event, node.long_polls
    )
    app.state.link_calls = link_calls = LinkCalls()
    app.state.renewals = BatchedRenewals(
        node.driver_link.renewals,
        lambda: link_calls.threads,
        renew_seconds=node.settings.lease.renew.total_seconds(),
    )
    app.state.page_refreshes = asyncio.Semaphore(REFRESHES)
    app.state.readiness = Readiness(node.check_ready)
    app.state.authentication_failures = AuthenticationFailures()
    app.state.sign_ins = CapacityLimiter(SIGN_IN_THREADS)
    app.state.password_checks = CapacityLimiter(SIGN_IN_THREADS)
    app.state.code_flows = CapacityLimiter(SIGN_IN_THREADS)
    renderers = ErrorRenderers(
        render_problem,
        by_prefix={
            OPENSEARCH_PREFIX: render_opensearch_error,
            LIVY_PREFIX: render_livy_error,
            f"{WEB_PREFIX}/": render_page_error,
        },
        by_path={
            OPENSEARCH_INFO_PATH: render_opensearch_error,
            WEB_PREFIX: render_page_error,
        },
    )
    http = node.settings.http
    names = [*http.allowed_hosts]
    if node.settings.web.public_address is not None:
        names.append(urlsplit(node.settings.web.public_address).netloc)
    hosts = AllowedHosts(address=node.context.address, host=http.host, names=names)
    # The last middleware is the first that sees a request.
    app.add_middleware(BodyLimit, renderers=renderers)
    app.add_middleware(Authentication, renderers=renderers)
    origins = read_origins(http.allowed_origins)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=_CORS_HEADERS,
            expose_headers=_EXPOSED_HEADERS,
        )
    app.add_middleware(BrowserRules, hosts=hosts, origins=origins, renderers=renderers)
    app.add_middleware(RequestMetrics, durations=node.request_durations)
    install_error_handlers(app, renderers)
    app.router.routes.append(driver_link.ROUTE)
    app.router.routes.extend(hiveserver2_http.ROUTES)
    for _, routers in _RESOURCES.values():
        for router in routers:
            app.include_router(router, prefix=API_PREFIX)
    app.include_router(async_query.router)
    app.include_router(async_query.info_router)
    app.include_router(livy_sessions.router)
    app.include_router(livy_batches.router)
    for pages in (
        *(web_sign_in, cluster_pages, statement_pages, result_pages),
        # `run_pages` has actions of jobs, before the pattern of `job_pages` for the others.
        *(
            session_pages,
            stream_pages,
            run_pages,
            job_pages,
            view_pages,
            webhook_pages,
            editor_pages,
            catalog_pages,
        ),
        *(draft_pages, log_pages),
    ):
        app.include_router(pages.router)
    app.include_router(health.router)
    app.include_router(docs.router)
    app.include_router(docs.openapi_router)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = build_document(app, _TAGS)
    return app.openapi_schema
