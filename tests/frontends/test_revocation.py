"""A response that is still sent ends when the credentials of its caller are revoked."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.store import new_session

from headrace.model.identity import Scope


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[InProcessNode]:
    with serve_node(make_settings(tmp_path / "home", token="of-the-node")) as node:
        yield node


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
    assert last < revoked_at + 2
