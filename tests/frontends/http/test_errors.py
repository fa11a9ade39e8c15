"""Errors of requests as the app handles them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message

from headrace.errors import QueueFull, ReachedLimit, StoreUnavailable, TooManySubmits
from headrace.frontends.http.errors import (
    ErrorRenderers,
    describe_error,
    install_error_handlers,
)
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
    # Nodes of other tests may log in their threads.
    assert [each for each in caplog.records if each.thread == threading.get_ident()] == []


LIMIT = ReachedLimit(name="sessions", owner="ada", value=1, used=1, setting="limits.x")


def _retries(seconds: float | None, clients: int = 200) -> list[int]:
    """Return the `Retry-After` of as many clients as are refused at once."""
    errors = [TooManySubmits().with_limit(LIMIT, retry_seconds=seconds) for _ in range(clients)]
    return [int(describe_error(error).headers["Retry-After"]) for error in errors]


@pytest.mark.parametrize(
    ("seconds", "first", "last"),
    [(None, 5, 10), (0.2, 1, 6), (20.5, 21, 42), (3600.0, 3600, 3660)],
)
def test_clients_that_a_limit_refuses_together_come_back_at_different_times(
    seconds: float | None, first: int, last: int
) -> None:
    retries = _retries(seconds)
    assert first <= min(retries)
    assert max(retries) <= last
    # A sixth of the clients at most would come in one second if they were spread evenly.
    assert max(Counter(retries).values()) < len(retries) / 2


def test_a_limit_is_part_of_the_problem_and_an_outage_has_no_jitter() -> None:
    problem = render_problem(describe_error(QueueFull("Full.").with_limit(LIMIT)))
    assert b'"limit":{"name":"sessions","owner":"ada","value":1,"used":1' in problem.body
    assert b'"setting":"limits.x","changed_by":"administrator"' in problem.body
    assert b"limit" not in render_problem(describe_error(QueueFull("Full."))).body
    outages = {describe_error(StoreUnavailable()).headers["Retry-After"] for _ in range(20)}
    assert outages == {"1"}
