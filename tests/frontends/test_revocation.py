"""A response that is still sent ends when the credentials of its caller are revoked."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import stored_result
from tests.support.store import new_session
from tests.support.waiting import wait_until

from headrace.control.policy import Caller
from headrace.errors import HeadraceError, StoreUnavailable, TooManyFailures, Unauthorized
from headrace.frontends.app import create_app
from headrace.frontends.http import auth
from headrace.frontends.http.errors import ErrorRenderers
from headrace.frontends.rest.problems import render_problem
from headrace.model.identity import Scope

TOKEN = "of-the-node"


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[InProcessNode]:
    with serve_node(make_settings(tmp_path / "home", token=TOKEN)) as node:
        yield node


def test_a_quiet_stream_of_events_ends_with_the_token_of_its_caller(
    secured: InProcessNode,
) -> None:
    created = secured.node.tokens.create(
        LOCAL_CALLER, name="quiet", expires=timedelta(days=1), scope=Scope.READ
    )
    headers = {"Authorization": f"Bearer {created.text}", "Accept": "text/event-stream"}
    url = "/api/v1/events?after=now&entity=deployment"
    with (
        secured.http.stream("GET", url, headers=headers) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        assert response.status_code == 200
        secured.node.tokens.revoke(LOCAL_CALLER, "quiet")
        revoked_at = time.monotonic()
        for _ in response.iter_lines():
            assert time.monotonic() < revoked_at + 60


def test_an_open_stream_ends_within_the_time_that_the_guide_names() -> None:
    """docs/guides/share-a-server.md, without the load of this machine."""
    assert auth._CHECK_SECONDS + auth.QUIET_SECONDS < 7


ROWS, WIDTH = 50_000, 1000


def test_a_download_ends_with_the_token_of_its_caller(
    secured: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reads slowly, so that the node holds most of the rows when it is refused."""
    monkeypatch.setattr(auth, "_CHECK_SECONDS", 0.0)
    created = secured.node.tokens.create(
        LOCAL_CALLER, name="reader", expires=timedelta(days=1), scope=Scope.READ
    )
    secured.http.headers["Authorization"] = f"Bearer {TOKEN}"
    session, driver = secured.start_session()
    statement = secured.submit(session=session)["id"]
    location = driver.claim().result_location
    assert location is not None
    parts = [[["x" * WIDTH]] * 1000 for _ in range(ROWS // 1000)]
    report = stored_result(Path(location), [("text", "string")], parts, chunk_limit=1000)
    assert driver.succeed(statement, report).applied
    url = f"/api/v1/statements/{statement}/result?format=csv"
    headers = {"Authorization": f"Bearer {created.text}"}
    received = 0
    with (
        secured.http.stream("GET", url, headers=headers) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        assert response.status_code == 200
        blocks = response.iter_raw()
        received += len(next(blocks))
        secured.node.tokens.revoke(LOCAL_CALLER, "reader")
        wait_until(lambda: secured.http.get("/api/v1/me", headers=headers).status_code == 401)
        for block in blocks:
            received += len(block)
    assert received < WIDTH * ROWS


AWAY = StoreUnavailable("away")


@pytest.mark.parametrize(
    ("outcome", "ends_after"),
    [
        (Unauthorized("revoked"), 0.0),
        (TooManyFailures("paused"), 0.0),
        (Caller("ada", roles=frozenset()), 0.0),
        (AWAY, 0.5),
    ],
)
def test_a_response_ends_when_its_caller_has_lost_its_rights_or_is_unknown_for_long(
    secured: InProcessNode,
    monkeypatch: pytest.MonkeyPatch,
    outcome: HeadraceError | Caller,
    ends_after: float,
) -> None:
    monkeypatch.setattr(auth, "_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(auth, "_AWAY_SECONDS", 0.5)
    found: list[HeadraceError | Caller] = [Caller("ada")]

    async def identify(_request: object) -> Caller:
        if isinstance(found[0], HeadraceError):
            raise found[0]
        return found[0]

    monkeypatch.setattr(auth, "_identify", identify)
    sent: list[float] = []

    async def send_for_long(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while len(sent) < 1000:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await asyncio.sleep(0.01)
            found[0] = outcome

    async def record(_message: Any) -> None:
        sent.append(time.monotonic())

    app = auth.Authentication(
        send_for_long, ErrorRenderers(render_problem, by_prefix={}, by_path={})
    )
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/events",
        "headers": [],
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "app": create_app(secured.node),
        "state": {},
    }
    asyncio.run(app(scope, None, record))  # type: ignore[arg-type]
    ended = time.monotonic()
    assert 2 <= len(sent) < 1000
    # The last part may have been sent long before, if the machine has let this process wait.
    assert ended - sent[0] >= ends_after * 0.8


def test_a_stream_of_events_ends_with_the_token_of_its_caller(secured: InProcessNode) -> None:
    created = secured.node.tokens.create(
        LOCAL_CALLER, name="watcher", expires=timedelta(days=1), scope=Scope.READ
    )
    headers = {"Authorization": f"Bearer {created.text}", "Accept": "text/event-stream"}
    created_at: dict[str, float] = {}
    has_ended = threading.Event()

    def create_sessions() -> None:
        while not has_ended.wait(0.1):
            now = time.monotonic()
            created_at[new_session(secured.database, owner=LOCAL_CALLER.owner)] = now

    producer = threading.Thread(target=create_sessions)
    producer.start()
    revoked_at, last = None, 0.0
    try:
        url = "/api/v1/events?entity=session"
        with (
            secured.http.stream("GET", url, headers=headers) as response,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            for line in response.iter_lines():
                match = re.search(r"se_[0-9a-f]{32}", line)
                if match is None:
                    continue
                last = created_at.get(match[0], time.monotonic())
                if revoked_at is None:
                    secured.node.tokens.revoke(LOCAL_CALLER, "watcher")
                    revoked_at = time.monotonic()
    finally:
        has_ended.set()
        producer.join()
    assert revoked_at is not None
    assert last < revoked_at + 20
