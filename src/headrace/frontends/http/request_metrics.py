"""The duration of requests, for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.control.metrics import NO_ROUTE
from headrace.frontends.http.auth import API_PREFIX
from headrace.model.messages import LINK_PREFIX

_METHODS = frozenset({"DELETE", "GET", "HEAD", "POST"})
_LINK_ROUTE = f"{LINK_PREFIX}/{{session_id}}/{{epoch}}/{{call}}"


class RequestMetrics:
    """ASGI middleware that observes each request until its response begins.

    The body of a response may be a stream of events, which lasts as long as its client wants.
    """

    def __init__(self, app: ASGIApp, durations: Histogram) -> None:
        self._app = app
        self._durations = durations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app, and observe its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        has_response = False

        async def observe(message: Message) -> None:
            nonlocal has_response
            if message["type"] == "http.response.start":
                has_response = True
                self._observe(scope, str(message["status"]), start)
            await send(message)

        try:
            await self._app(scope, receive, observe)
        except Exception:
            # Starlette answers an unexpected error outside of this middleware.
            if not has_response:
                self._observe(scope, "500", start)
            raise

    def _observe(self, scope: Scope, status: str, start: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        labels = self._durations.labels(method, _route(scope), status)
        labels.observe(time.perf_counter() - start)


def _route(scope: Scope) -> str:
    """Return the template of the path of a request that the router has matched."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path is None:
        is_link = scope.get("endpoint") is not None and scope["path"].startswith(LINK_PREFIX)
        return _LINK_ROUTE if is_link else NO_ROUTE
    # The route of an included router does not know the prefix of the API.
    has_prefix = not scope["path"].startswith(f"{API_PREFIX}/") or path.startswith(API_PREFIX)
    return path if has_prefix else API_PREFIX + path
