"""Errors of requests as the app handles them."""

from __future__ import annotations

import asyncio
import logging

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message

from headrace.frontends.http.errors import ErrorRenderers, install_error_handlers
from headrace.frontends.rest.problems import render_problem


@pytest.mark.finding("S16")
def test_a_client_that_disconnects_during_its_body_leaves_no_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def read(request: Request) -> Response:
        return Response(await request.body())

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    sent: list[Message] = []
    app = FastAPI()
    app.router.routes.append(Route("/read", read, methods=["POST"]))
    install_error_handlers(app, ErrorRenderers(render_problem, by_prefix={}, by_path={}))
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/read",
        "query_string": b"",
        "headers": [(b"content-length", b"1000")],
    }
    with caplog.at_level(logging.INFO):
        asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 400
    assert caplog.records == []
