"""A limit on the size of request bodies, so that no request can fill the node's memory."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.api.http.errors import ErrorRenderers
from headrace.errors import StatementTooLarge

BODY_LIMIT = 16 * 1024 * 1024
"""Enough for a statement of 1 MiB in its longest JSON form, and for an inline result."""


class BodyLimit:
    """ASGI middleware that refuses bodies above the limit, with or without a Content-Length."""

    def __init__(self, app: ASGIApp, renderers: ErrorRenderers) -> None:
        self._app = app
        self._renderers = renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        content_length = dict(scope["headers"]).get(b"content-length", b"0")
        if content_length.isdigit() and int(content_length) > BODY_LIMIT:
            await self._refuse(scope, receive, send)
            return
        received = 0
        has_responded = False

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > BODY_LIMIT:
                raise _TooLargeError
            return message

        async def send_unless_too_large(message: Message) -> None:
            # The app turns the exception into a response of its own, which the refusal replaces.
            nonlocal has_responded
            if has_responded or received <= BODY_LIMIT:
                has_responded = True
                await send(message)

        try:
            await self._app(scope, receive_counted, send_unless_too_large)
        except _TooLargeError:
            if has_responded:
                raise
        if received > BODY_LIMIT and not has_responded:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = StatementTooLarge(
            f"The body of the request is larger than the limit of {BODY_LIMIT} bytes."
        )
        await self._renderers.respond(scope["path"], error)(scope, receive, send)


class _TooLargeError(Exception):
    """The body exceeds the limit."""
