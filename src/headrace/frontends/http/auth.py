"""The node and the caller of a request. Authentication finds the caller by its credentials.

Requests are authenticated before their body is read. Every path needs credentials, except a few
that reveal nothing, and the driver link, whose routes check the tokens of drivers.
"""

from __future__ import annotations

import base64
import binascii
import math
import time
from contextlib import suppress
from dataclasses import replace
from typing import Annotated
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.config.auth import AuthSettings, HeaderSettings
from headrace.control.identity.code_flow import CALLBACK_PATH
from headrace.control.identity.credentials import (
    BearerToken,
    BrowserToken,
    Credentials,
    Password,
    ProxyUser,
    from_password,
)
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import (
    ClientCertificateMissing,
    HeadraceError,
    InvalidRequest,
    TooManyFailures,
    Unauthorized,
    UnknownParameter,
)
from headrace.frontends.http.errors import ErrorRenderers
from headrace.frontends.http.refusals import address_of, record_refusal
from headrace.frontends.http.server import CERTIFICATE_STATE
from headrace.model.messages import LINK_PREFIX

API_PREFIX = "/api/v1"
OPENAPI_PATH = f"{API_PREFIX}/openapi.json"
DOCS_PATH = "/docs"
SIGN_IN_PATH = f"{API_PREFIX}/sign-in"
WEB_PREFIX = "/ui"
"""Path of the pages for people. Only they and their forms accept the cookie."""
WEB_SIGN_IN_PATH = f"{WEB_PREFIX}/sign-in"
WEB_SIGN_OUT_PATH = f"{WEB_PREFIX}/sign-out"
WEB_OIDC_PATH = f"{WEB_SIGN_IN_PATH}/oidc"
WEB_CALLBACK_PATH = CALLBACK_PATH
COOKIE = "headrace_sign_in"
"""Begin of the name of the cookie with the token of a browser, see `name_sign_in_cookie`."""
PUBLIC_PATHS = frozenset(
    {
        *("/health", "/ready", OPENAPI_PATH, DOCS_PATH, SIGN_IN_PATH),
        *(WEB_SIGN_IN_PATH, WEB_OIDC_PATH, WEB_CALLBACK_PATH),
    }
)
"""Paths that need no credentials. Neither do those below `_PUBLIC_PREFIXES`."""
_PUBLIC_PREFIXES = (f"{LINK_PREFIX}/", f"{DOCS_PATH}/", f"{WEB_PREFIX}/assets/")
"""Prefixes of paths that need none: files of pages, and the driver link."""
_PROBES = frozenset({"/health", "/ready"})
_TOKEN_PARAMETER = "access_token"  # noqa: S105
_CHECK_SECONDS = 1.0
"""Age of a check of the credentials after which no further part of a response is sent."""
QUIET_SECONDS = 5.0
"""Time after which a response without rows or events sends an empty part: the credentials are then
checked, proxies keep the connection, and the absence of the client is seen."""
_AWAY_SECONDS = 60.0
"""Time for which a response continues although the credentials cannot be checked."""
SIGN_IN_THREADS = 8
"""Threads that sign in callers, so that a slow issuer does not hold the threads of requests. The
same number of threads checks passwords, so that a slow directory does not delay callers with
tokens."""
SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "description": "Needed if the node has a token.",
        "scheme": "bearer",
    },
    "password": {
        "type": "http",
        "description": (
            "User and password of a directory, if the node has one. The user `token` sends a token"
            " as its password."
        ),
        "scheme": "basic",
    },
}
"""Description of the credentials for OpenAPI. A dependency of FastAPI would delay every request."""


def node_of(request: Request) -> Node:
    """Return the node that answers a request."""
    node: Node = request.app.state.node
    return node


class Authentication:
    """ASGI middleware that refuses requests without valid credentials."""

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
                caller = replace(await _identify(request), address=address_of(request))
                request.state.caller = caller
            _check_query(request)
        except HeadraceError as error:
            record_refusal(request, error)
            response = self._renderers.respond(
                scope, error, method=request.method, query=request.url.query
            )
            if isinstance(error, Unauthorized) and node_of(request).settings.auth.ldap is not None:
                response.headers.append("WWW-Authenticate", _PASSWORD_CHALLENGE)
            await response(scope, receive, send)
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
        # The sign-out has revoked the credentials of its own response.
        is_sign_out = request.scope["path"] == WEB_SIGN_OUT_PATH
        self._until = math.inf if is_sign_out else time.monotonic() + _CHECK_SECONDS
        self._known_until = time.monotonic() + _AWAY_SECONDS
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
        except (Unauthorized, TooManyFailures) as error:
            record_refusal(self._request, error)
            self.is_refused = True
        except HeadraceError:
            # It is not known while the store, the issuer or the directory is away.
            self.is_refused = time.monotonic() > self._known_until
        else:
            self.is_refused = current != self._caller
            self._known_until = time.monotonic() + _AWAY_SECONDS
        if self.is_refused:
            raise _ResponseEnds
        self._until = time.monotonic() + _CHECK_SECONDS


class _ResponseEnds(BaseException):
    """The rest of a response is not sent."""


_HOME_HINT = "the token is in the file 'token' of the home, unless HEADRACE_TOKEN sets it"
_LOGIN_HINT = "sign in with headrace login, or set HEADRACE_TOKEN to a token of yours"
_PASSWORD_HINT = "send user and password with HTTP Basic, or set HEADRACE_TOKEN to a token of yours"  # noqa: S105
_PASSWORD_CHALLENGE = 'Basic realm="Headrace", charset="UTF-8"'  # noqa: S105


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
    return path in PUBLIC_PATHS or path.startswith(_PUBLIC_PREFIXES)


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


def _check_query(request: Request) -> None:
    """Raise UnknownParameter for a token in the address (RFC 6750), which proxies write to logs.

    Not every API refuses the parameters that it does not know.
    """
    if request.scope["query_string"] and _TOKEN_PARAMETER in request.query_params:
        raise UnknownParameter(
            f"Unknown query parameter: {_TOKEN_PARAMETER!r}.",
            hint="send the token in the header Authorization: Bearer",
        )


async def _identify(request: Request) -> Caller:
    """Return the caller of a request.

    Raises:
        Unauthorized: The credentials are missing or wrong.
        InvalidRequest: The request has several credentials.
        TooManyFailures, SignInUnavailable, StoreUnavailable: As the authenticator.
    """
    node = node_of(request)
    authenticator = node.authenticator
    is_open = authenticator.is_open
    credentials = None if is_open else read_credentials(request, node.settings.auth)
    known = authenticator.find(credentials)
    if known is not None:
        return known
    state = request.app.state
    is_password = isinstance(credentials, Password)
    threads: CapacityLimiter = state.password_checks if is_password else state.sign_ins
    return await to_thread.run_sync(authenticator.identify, credentials, limiter=threads)


def read_credentials(request: Request, settings: AuthSettings) -> Credentials:
    """Return the credentials of a request.

    Raises:
        Unauthorized: The request has no credentials, or they cannot be read.
        InvalidRequest: It has several credentials, and each could name another caller.
    """
    address = request.client.host if request.client else ""
    authorizations = request.headers.getlist("authorization")
    user = None if settings.header is None else _read_proxy_user(request, settings.header, address)
    if len(authorizations) + (user is not None) > 1:
        raise InvalidRequest(
            "The request has several credentials.",
            hint="A proxy that names users removes the header Authorization.",
        )
    if user is not None:
        return user
    cookie = None if authorizations else read_cookie(request)
    if cookie is not None:
        return BrowserToken(cookie)
    scheme, _, text = (authorizations or [""])[0].partition(" ")
    if scheme.lower() == "basic":
        return _read_basic(text.strip(), address)
    return BearerToken(bearer_token(request, _hint(settings)))


def is_web(path: str) -> bool:
    """Return whether a path is that of a page for people."""
    return path == WEB_PREFIX or path.startswith(f"{WEB_PREFIX}/")


def read_cookie(request: Request) -> str | None:
    """Return the token in the cookie of a request for a page; None if there is none.

    The API does not read cookies: a page of another site could let the browser send them.

    Raises:
        Unauthorized: There are several. Programs at other ports of the host can set cookies, too.
    """
    if not is_web(request.scope["path"]):
        return None
    wanted = name_sign_in_cookie(request)
    values = [value for name, value in list_cookies(request) if name == wanted]
    if len(values) > 1:
        raise Unauthorized(
            f"The browser has several cookies {wanted}.", hint="Delete the cookies of this host."
        )
    return values[0] if values else None


def name_sign_in_cookie(request: Request) -> str:
    """Return the name of the cookie with the token of a browser.

    Browsers send a cookie to all ports of a host. The name therefore has the port that the browser
    has used, so that a second cluster on the host does not replace the sign-in. The prefix
    `__Host-` is not possible: it needs the path `/`, and a proxy may serve several clusters.
    """
    port: int | None = None
    with suppress(ValueError):
        port = urlsplit(f"//{request.headers.get('host', '')}").port
    return COOKIE if port is None else f"{COOKIE}_{port}"


def list_cookies(request: Request) -> list[tuple[str, str]]:
    """Return names and values of the cookies of a request. A name can occur several times."""
    pairs = [
        pair.strip().partition("=")
        for header in request.headers.getlist("cookie")
        for pair in header.split(";")
    ]
    return [(name, value) for name, _, value in pairs]


def _hint(settings: AuthSettings) -> str:
    if settings.oidc:
        return _LOGIN_HINT
    return _HOME_HINT if settings.ldap is None else _PASSWORD_HINT


def _read_basic(text: str, address: str) -> Credentials:
    """Return the user and password of HTTP Basic (RFC 7617)."""
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        # Outside of the handler, so that this error does not refer to an error with the password.
        raise Unauthorized("The header Authorization is not that of HTTP Basic in UTF-8.")
    return from_password(name, password, address)


def _read_proxy_user(request: Request, settings: HeaderSettings, address: str) -> ProxyUser | None:
    """Return the user whom a proxy names; None if the request has no such header."""
    name = _read_header(request, settings.user_header)
    if name is None:
        return None
    groups = settings.groups_header
    return ProxyUser(
        name,
        None if groups is None else _read_header(request, groups),
        _read_header(request, settings.secret_header),
        address,
    )


def _read_header(request: Request, name: str) -> str | None:
    """Return the value of a header that only a proxy sends; None if it is missing.

    Raises:
        InvalidRequest: The header occurs twice, or with `_`, which some servers take for `-`: a
            proxy that removes headers of its callers may have left it. Or it is not in UTF-8.
    """
    wanted = name.lower().encode()
    sent = [pair for pair in request.scope["headers"] if pair[0].replace(b"_", b"-") == wanted]
    if not sent:
        return None
    if len(sent) > 1 or sent[0][0] != wanted:
        raise InvalidRequest(f"The header {name} occurs twice, or with '_' instead of '-'.")
    value: bytes = sent[0][1]
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"The header {name} is not in UTF-8.") from None
