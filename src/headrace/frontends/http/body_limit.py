"""A limit on the size of request bodies, so that no request can fill the node's memory.

The driver link has limits of its own, one for each call.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.errors import BodyTooLarge
from headrace.frontends.http.errors import ErrorRenderers
from headrace.model.messages import LINK_PREFIX

BODY_LIMIT = 16 * 1024 * 1024
"""Bytes; enough for a statement of 10 MiB whose JSON has few escapes, and for an inline result."""


class BodyLimit:
    """ASGI middleware that refuses bodies above the limit, with or without a Content-Length."""

    def __init__(self, app: ASGIApp, renderers: ErrorRenderers) -> None:
        self._app = app
        self._renderers = renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app, or refuse it."""
        if scope["type"] != "http" or scope["path"].startswith(f"{LINK_PREFIX}/"):
            await self._app(scope, receive, send)
            return
        content_length = dict(scope["headers"]).get(b"content-length", b"0")
        if content_length.isdigit() and int(content_length) > BODY_LIMIT:
            await self._refuse(scope, receive, send)
            return
        exchange = _Exchange(receive, send)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except _TooLargeError:
            if exchange.has_responded:
                raise
        if exchange.is_too_large and not exchange.has_responded:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = BodyTooLarge(
            f"The body of the request is larger than the limit of {BODY_LIMIT} bytes."
        )
        await self._renderers.respond(scope, error)(scope, receive, send)


class _Exchange:
    """The messages of one request and its response; counts the bytes of the body."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._received = 0
        self.has_responded = False

    @property
    def is_too_large(self) -> bool:
        return self._received > BODY_LIMIT

    async def receive(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        if self.is_too_large:
            raise _TooLargeError
        return message

    async def send(self, message: Message) -> None:
        # The app turns the exception into a response of its own, which the refusal replaces.
        if self.has_responded or not self.is_too_large:
            self.has_responded = True
            await self._send(message)


class _TooLargeError(Exception):
    """The body exceeds the limit."""
