"""A store that is down: calls get 503, the node lives on and recovers, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, serve_node, settings_for
from tests.support.postgres import PostgresServer, running_server
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server that these tests may stop."""
    with running_server() as running:
        yield running


@pytest.fixture
def postgres_node(server: PostgresServer, tmp_path: Path) -> Iterator[InProcessNode]:
    """A node on that server."""
    store = {"url": server.url(server.new_database()), "connect_timeout": "2s"}
    with serve_node(settings_for(tmp_path, store=store)) as running:
        yield running


pytestmark = pytest.mark.postgres


def test_calls_get_503_and_the_node_recovers(
    postgres_node: InProcessNode, server: PostgresServer
) -> None:
    node = postgres_node
    session_id, driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    driver.claim()

    server.stop()
    try:
        for method, path in (
            ("GET", "/ready"),
            ("GET", "/api/v1/statements"),
            ("GET", f"/api/v1/statements/{statement_id}"),
            ("GET", f"/api/v1/statements/{statement_id}/result"),
            ("POST", "/api/v1/statements"),
            ("POST", f"/api/v1/statements/{statement_id}/cancel"),
            ("POST", "/api/v1/sessions"),
            ("GET", "/api/v1/events"),
            ("GET", "/api/v1/nodes"),
        ):
            body = {"statement": "SELECT 1"} if path.endswith("/statements") else {}
            response = node.http.request(method, path, json=body if method == "POST" else None)
            assert (response.status_code, response.json()["code"]) == (503, "store_unavailable")
            assert response.headers["retry-after"] == "1"
            assert response.headers["content-type"] == "application/problem+json"
        told = node.http.get(f"/_plugins/_async_query/{statement_id}").json()
        assert (told["status"], told["error"]["type"]) == (503, "StoreUnavailable")
        assert node.http.get("/health").status_code == 200
        with pytest.raises(httpx.HTTPStatusError) as caught:
            driver.succeed(statement_id)
        assert caught.value.response.status_code == 503
    finally:
        server.start()

    wait_until(lambda: node.http.get("/ready").status_code == 200, what="the node is ready again")
    assert driver.succeed(statement_id).applied
    assert node.statement(statement_id)["state"] == "success"
    assert node.http.get(f"/api/v1/statements/{statement_id}/result").json()["rows"] == [[1]]
    assert node.submit(session=session_id)["state"] == "waiting"


def test_who_waits_during_an_outage_is_told(
    postgres_node: InProcessNode, server: PostgresServer
) -> None:
    node = postgres_node
    session_id, _driver = node.driven_session()
    statement_id = node.submit(session=session_id)["id"]
    with ThreadPoolExecutor(1) as pool:
        path = f"/api/v1/statements/{statement_id}"
        answer = pool.submit(node.http.get, path, params={"wait_timeout": "30s"})
        topic = f"statement:{statement_id}"
        wait_until(lambda: topic in node.database.notifications._topics, what="the call waits")
        server.stop()
        try:
            assert answer.result(timeout=20).status_code == 503
        finally:
            server.start()
    wait_until(lambda: node.http.get("/ready").status_code == 200, what="the node is ready again")
    assert node.statement(statement_id)["state"] == "waiting"


def test_drivers_are_not_judged_by_an_outage(server: PostgresServer, tmp_path: Path) -> None:
    """After it, every driver has one full lease to come back."""
    store = {"url": server.url(server.new_database()), "connect_timeout": "2s"}
    lease = {"duration": "2s", "sweep": "100ms"}
    with serve_node(settings_for(tmp_path, store=store, lease=lease)) as node:
        session_id, driver = node.driven_session()
        said_hello = time.monotonic()
        server.stop()
        try:
            wait_until(lambda: time.monotonic() > said_hello + 2.5, what="the lease has run out")
        finally:
            server.start()
        wait_until(lambda: node.http.get("/ready").status_code == 200, what="the node is back")
        assert driver.renew().applied
        assert node.http.get(f"/api/v1/sessions/{session_id}").json()["state"] == "running"
