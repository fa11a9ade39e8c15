"""Rules that keep web pages of other sites from calling a node through a user's browser.

Browsers name the host that they address (Host), the origin of the page (Origin), and its relation
to the node (Sec-Fetch-Site). Programs need to send Host alone, and with HTTP/1.0 none of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.api.http.allowed_hosts import AllowedHosts, ServerAddress, parse_host, parse_origin
from headrace.api.http.errors import ErrorRenderers
from headrace.errors import ForeignOrigin, HeadraceError, InvalidRequest, UnknownHost

_SAFE_SITES = {"same-origin", "none"}
"""Values of Sec-Fetch-Site: a page of the node itself, and a user who enters an address."""
_SHOWN = 200
"""Largest number of characters of a header in a message."""


class BrowserRules:
    """ASGI middleware that refuses unknown hosts (421) and pages of other sites (403)."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts, renderers: ErrorRenderers) -> None:
        self._app = app
        self._hosts = hosts
        self._renderers = renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app, or refuse it."""
        if scope["type"] == "http":
            try:
                check_request(self._hosts, scope["headers"], scope.get("server"))
                _check_has_host(scope)
            except HeadraceError as error:
                await self._renderers.respond(scope["path"], error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_request(
    hosts: AllowedHosts, headers: Iterable[tuple[bytes, bytes]], server: ServerAddress | None
) -> None:
    """Check the headers of a request.

    Raises:
        InvalidRequest: If the request has several Host headers.
        UnknownHost: If the node does not serve the host.
        ForeignOrigin: If a page of another site made the request.
    """
    values: dict[bytes, list[str]] = {b"host": [], b"origin": [], b"sec-fetch-site": []}
    for name, value in headers:
        if name in values:
            values[name].append(value.decode("latin-1").strip())
    _check_host(hosts, values[b"host"], server)
    for text in values[b"origin"]:
        origin = parse_origin(text)
        if origin is None or not hosts.contains(origin, server):
            raise ForeignOrigin(
                f"Pages of the origin {text[:_SHOWN]!r} cannot call this node.",
                hint="if the page belongs to the node, add its host to http.allowed_hosts",
            )
    for site in values[b"sec-fetch-site"]:
        if site not in _SAFE_SITES:
            raise ForeignOrigin("Pages of other sites cannot call this node.")


def _check_has_host(scope: Scope) -> None:
    """Raise InvalidRequest for a request of HTTP/1.1 without a Host header."""
    if scope["http_version"] == "1.1" and not any(name == b"host" for name, _ in scope["headers"]):
        raise InvalidRequest(
            "The request has no Host header, which HTTP/1.1 requires.",
            hint="send the header Host with the address of the node",
        )


def _check_host(hosts: AllowedHosts, texts: list[str], server: ServerAddress | None) -> None:
    if len(texts) > 1:
        raise InvalidRequest("The request has several Host headers.")
    for text in texts:
        host = parse_host(text)
        if host is None or not hosts.contains(host, server):
            raise UnknownHost(
                f"This node does not serve the host {text[:_SHOWN]!r}.",
                hint="use the address of the node, or add the host to http.allowed_hosts",
            )
