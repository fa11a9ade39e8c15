"""The node and the caller of a request. Authentication finds the caller by its bearer token.

Requests are authenticated before their body is read. Every path needs a token, except a few that
reveal nothing, and the driver link, whose routes check the tokens of drivers.
"""

from __future__ import annotations

import time
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import ClientCertificateMissing, HeadraceError, Unauthorized
from headrace.frontends.http.authentication_failures import log_authentication_failure
from headrace.frontends.http.errors import ErrorRenderers
from headrace.frontends.http.server import CERTIFICATE_STATE
from headrace.model.messages import LINK_PREFIX

API_PREFIX = "/api/v1"
OPENAPI_PATH = f"{API_PREFIX}/openapi.json"
DOCS_PATH = "/docs"
SIGN_IN_PATH = f"{API_PREFIX}/sign-in"
PUBLIC_PATHS = frozenset({"/health", "/ready", OPENAPI_PATH, DOCS_PATH, SIGN_IN_PATH})
"""Paths that need no token. Neither do the files of the page below DOCS_PATH."""
_PROBES = frozenset({"/health", "/ready"})
_CHECK_SECONDS = 1.0
"""Age of a check of the credentials after which no further part of a response is sent."""
SIGN_IN_THREADS = 8
"""Threads that sign in callers: a slow issuer must not hold those of requests."""
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
    """ASGI middleware that refuses requests without a valid token."""

    def __init__(self, app: ASGIApp, renderers: ErrorRenderers) -> None:
        self._app = app
        self._renderers = renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app with its caller, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        caller = None
        try:
            _check_certificate(request)
            if not _is_exempt(scope["path"]):
                caller = request.state.caller = await _identify(request)
        except HeadraceError as error:
            if isinstance(error, Unauthorized | ClientCertificateMissing):
                log_authentication_failure(request, error)
            await self._renderers.respond(scope["path"], error)(scope, receive, send)
            return
        if caller is None:
            await self._app(scope, receive, send)
            return
        guard = _GuardedSend(request, caller, send)
        try:
            await self._app(scope, receive, guard)
        except BaseException:
            # The server closes a connection whose response is not complete.
            if not guard.is_refused:
                raise


class _GuardedSend:
    """Sends a response as long as its caller may have it: streams may last for days."""

    def __init__(self, request: Request, caller: Caller, send: Send) -> None:
        self._request = request
        self._caller = caller
        self._send = send
        self._until = time.monotonic() + _CHECK_SECONDS
        self.is_refused = False

    async def __call__(self, message: Message) -> None:
        """Send a part of the response.

        Raises:
            _ResponseEnds: The credentials are not valid any more, or give other rights.
        """
        if time.monotonic() > self._until:
            await self._check()
        await self._send(message)

    async def _check(self) -> None:
        try:
            current = await _identify(self._request)
        except Unauthorized as error:
            log_authentication_failure(self._request, error)
            self.is_refused = True
        except HeadraceError:
            return  # it is not known while the store or the issuer is away
        else:
            self.is_refused = current != self._caller
        if self.is_refused:
            raise _ResponseEnds
        self._until = time.monotonic() + _CHECK_SECONDS


class _ResponseEnds(BaseException):
    """The rest of a response is not sent."""


_HOME_HINT = "the token is in the file 'token' of the home, unless HEADRACE_TOKEN sets it"
_LOGIN_HINT = "sign in with headrace login, or set HEADRACE_TOKEN to a token of yours"


def bearer_token(request: Request, hint: str = _HOME_HINT) -> str:
    """Return the bearer token of a request. Raise Unauthorized if it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized(
            "Send 'Authorization: Bearer <token>'.",
            hint=hint,
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


def _check_certificate(request: Request) -> None:
    """Raise ClientCertificateMissing if the client needs a certificate and has none.

    Drivers need none: users' code runs in them, and a certificate would let this code call the API.
    Their tokens open their own session of the link only. Probes of balancers have none either.
    """
    path = request.scope["path"]
    if (
        node_of(request).settings.tls.client_ca is None
        or request.scope["state"].get(CERTIFICATE_STATE)
        or path in _PROBES
        or path.startswith(f"{LINK_PREFIX}/")
    ):
        return
    raise ClientCertificateMissing(
        "This node requires a certificate of its clients.",
        hint="commands present that of tls.client_cert and tls.client_key",
    )


async def _identify(request: Request) -> Caller:
    """Return the caller of a request. Raise Unauthorized if the token is missing or wrong."""
    node = node_of(request)
    authenticator = node.authenticator
    hint = _LOGIN_HINT if node.settings.auth.oidc else _HOME_HINT
    token = None if authenticator.is_open else bearer_token(request, hint)
    known = authenticator.find(token)
    if known is not None:
        return known
    threads: CapacityLimiter = request.app.state.sign_ins
    return await to_thread.run_sync(authenticator.identify, token, limiter=threads)
