"""Rules that keep web pages of other sites from calling a node through a user's browser.

Browsers name the host that they address (Host), the origin of the page (Origin), and its relation
to the node (Sec-Fetch-Site). Programs need to send Host alone, and with HTTP/1.0 none of them.
Pages of the origins in the settings are served; `create_app` adds the headers of CORS.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import (
    ForeignOrigin,
    HeadraceError,
    InvalidRequest,
    InvalidSetting,
    UnknownHost,
)
from headrace.frontends.http.allowed_hosts import (
    AllowedHosts,
    ServerAddress,
    parse_host,
    parse_origin,
)
from headrace.frontends.http.auth import is_web
from headrace.frontends.http.errors import ErrorRenderers

_SAFE_SITES = {"same-origin", "none"}
"""Values of Sec-Fetch-Site: a page of the node itself, and a user who enters an address."""
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#*\s]+)")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SHOWN = 200
"""Largest number of characters of a header in a message."""


class BrowserRules:
    """ASGI middleware that refuses unknown hosts (421) and pages of other sites (403)."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: AllowedHosts,
        origins: Collection[str],
        renderers: ErrorRenderers,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._renderers = renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app, or refuse it."""
        if scope["type"] == "http":
            try:
                check_request(
                    self._hosts,
                    # Pages of other sites may call the API, and send no forms of a user.
                    () if is_web(scope["path"]) else self._origins,
                    scope["headers"],
                    scope.get("server"),
                    follows_link=_follows_link(scope),
                )
                _check_has_host(scope)
            except HeadraceError as error:
                await self._renderers.respond(scope, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def read_origins(settings: Iterable[str]) -> list[str]:
    """Return the origins of a setting in the form that browsers send.

    Raises:
        InvalidSetting: If one of them is not an origin. `*` would let every site call the node.
    """
    return [_read_origin(text) for text in settings]


def _read_origin(text: str) -> str:
    match, host = _ORIGIN.fullmatch(text), parse_origin(text)
    if match is None or host is None:
        raise InvalidSetting(
            f"http.allowed_origins: {text!r} is not an origin. Write the scheme and the host of the"
            " page, and its port if it has one: https://app.example.com."
        )
    name = f"[{host.name}]" if ":" in host.name else host.name
    if host.port is None or host.port == _DEFAULT_PORTS[match["scheme"]]:
        return f"{match['scheme']}://{name}"
    return f"{match['scheme']}://{name}:{host.port}"


def check_request(
    hosts: AllowedHosts,
    origins: Collection[str],
    headers: Iterable[tuple[bytes, bytes]],
    server: ServerAddress | None,
    *,
    follows_link: bool = False,
) -> None:
    """Check the headers of a request.

    Args:
        origins: Origins of other sites whose pages may call the node.
        follows_link: Whether the browser opens a page for people. Any site may link to it.

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
    if len(values[b"origin"]) == 1 and values[b"origin"][0] in origins:
        return
    for text in values[b"origin"]:
        origin = parse_origin(text)
        if origin is None or not hosts.contains(origin, server):
            raise ForeignOrigin(
                f"Pages of the origin {text[:_SHOWN]!r} cannot call this node.",
                hint="to let these pages call the node, add the origin to http.allowed_origins; if"
                " the page belongs to the node, add its host to http.allowed_hosts",
            )
    for site in values[b"sec-fetch-site"]:
        if site not in _SAFE_SITES and not follows_link:
            raise ForeignOrigin("Pages of other sites cannot call this node.")


def _follows_link(scope: Scope) -> bool:
    """Return whether a browser opens a page in a window, and not in a frame."""
    headers = dict(scope["headers"])
    return (
        scope["method"] == "GET"
        and is_web(scope["path"])
        and headers.get(b"sec-fetch-mode") == b"navigate"
        and headers.get(b"sec-fetch-dest") == b"document"
    )


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
