"""A bound on what a request may bring, so that nobody fills the node's memory."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.api.http.errors import ErrorRenderers
from headrace.errors import StatementTooLarge

BODY_LIMIT = 16 * 1024 * 1024
"""A statement of 1 MiB in its worst JSON spelling, with parameters; a driver's inline result."""


class BodyLimit:
    """Refuses a body beyond the limit, announced or not."""

    def __init__(self, app: ASGIApp, speakers: ErrorRenderers) -> None:
        self._app = app
        self._speakers = speakers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > BODY_LIMIT:
            await self._refuse(scope, receive, send)
            return
        seen = 0
        begun = False

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > BODY_LIMIT:
                raise _TooLarge
            return message

        async def held_back(message: Message) -> None:
            """What the app makes of the exception is not sent: the refusal is."""
            nonlocal begun
            if begun or seen <= BODY_LIMIT:
                begun = True
                await send(message)

        try:
            await self._app(scope, counted, held_back)
        except _TooLarge:
            if begun:
                raise
        if seen > BODY_LIMIT and not begun:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = StatementTooLarge(f"A request may hold {BODY_LIMIT} bytes.")
        await self._speakers.respond(scope["path"], error)(scope, receive, send)


class _TooLarge(Exception):
    """More has come than the limit."""
