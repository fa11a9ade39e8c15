"""The node and the caller of a request. Authentication finds the caller by its bearer token.

Requests are authenticated before their body is read. Every path needs the token of the node, except
a few that reveal nothing, and the driver link, whose routes check the tokens of drivers.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import Unauthorized
from headrace.frontends.http.authentication_failures import log_authentication_failure
from headrace.frontends.http.errors import ErrorRenderers
from headrace.model.messages import LINK_PREFIX

API_PREFIX = "/api/v1"
OPENAPI_PATH = f"{API_PREFIX}/openapi.json"
DOCS_PATH = "/docs"
PUBLIC_PATHS = frozenset({"/health", "/ready", OPENAPI_PATH, DOCS_PATH})
"""Paths that need no token. Neither do the files of the page below DOCS_PATH."""
SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "description": "Needed if the node has a token.",
        "scheme": "bearer",
    }
}
"""Description of the token for OpenAPI. A dependency of FastAPI would delay every request."""


def node_of(request: Request) -> Node:
    """Return the node that answers a request."""
    node: Node = request.app.state.node
    return node


class Authentication:
    """ASGI middleware that refuses requests without the token of the node."""

    def __init__(self, app: ASGIApp, renderers: ErrorRenderers) -> None:
        self._app = app
        self._renderers = renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app with its caller, or refuse it."""
        if scope["type"] == "http" and not _is_exempt(scope["path"]):
            request = Request(scope)
            try:
                request.state.caller = _identify(request)
            except Unauthorized as error:
                log_authentication_failure(request, error)
                await self._renderers.respond(scope["path"], error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def bearer_token(request: Request) -> str:
    """Return the bearer token of a request. Raise Unauthorized if it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized(
            "Send 'Authorization: Bearer <token>'.",
            hint="the token is in the file 'token' of the home, unless HEADRACE_TOKEN sets it",
        )
    return token.strip()


async def _authenticated_caller(request: Request) -> Caller:
    """Return the caller of a request, whom the middleware has authenticated."""
    caller: Caller = request.state.caller
    return caller


Authenticated = Annotated[Caller, Depends(_authenticated_caller)]
"""Parameter of a handler: the caller of the request."""


def _is_exempt(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith((f"{LINK_PREFIX}/", f"{DOCS_PATH}/"))


def _identify(request: Request) -> Caller:
    """Return the caller of a request. Raise Unauthorized if the token is missing or wrong."""
    node = node_of(request)
    return node.identify(bearer_token(request) if node.token is not None else None)
