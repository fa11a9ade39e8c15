"""A bound on what a request may bring, so that nobody fills the node's memory."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.api.problems import respond
from headrace.errors import StatementTooLarge

BODY_LIMIT = 16 * 1024 * 1024
"""A statement of 1 MiB in its worst JSON spelling, with parameters; a driver's inline result."""


class BodyLimit:
    """Refuses a body beyond the limit, announced or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        error = StatementTooLarge(f"A request may hold {BODY_LIMIT} bytes.")
        if announced.isdigit() and int(announced) > BODY_LIMIT:
            await respond(error)(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > BODY_LIMIT:
                raise error
            return message

        await self._app(scope, counted, send)
