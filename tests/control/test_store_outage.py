"""A store that does not answer: calls get 503, and the node continues when it is back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.postgres import PostgresServer, running_server
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Start a PostgreSQL server that these tests may stop."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_node(server: PostgresServer, tmp_path: Path) -> Iterator[InProcessNode]:
    """Serve a node whose store is on that server."""
    store = {"url": server.url(server.new_database()), "connect_timeout": "2s"}
    with serve_node(make_settings(tmp_path, store=store)) as node:
        yield node


pytestmark = pytest.mark.postgres


def test_calls_get_503_during_an_outage_and_succeed_afterwards(
    postgres_node: InProcessNode, server: PostgresServer
) -> None:
    node = postgres_node
    session_id, driver = node.start_session()
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
        problem = node.http.get(f"/_plugins/_async_query/{statement_id}").json()
        assert (problem["status"], problem["error"]["type"]) == (503, "StoreUnavailable")
        assert node.http.get("/health").status_code == 200
        metrics = node.http.get("/metrics").text
        assert "headrace_store_up 0.0" in metrics
        assert "headrace_store_writes_total{" in metrics
        with pytest.raises(httpx.HTTPStatusError) as caught:
            driver.succeed(statement_id)
        assert caught.value.response.status_code == 503
    finally:
        server.start()

    wait_until(lambda: node.http.get("/ready").status_code == 200, what="the node is ready again")
    assert "headrace_store_up 1.0" in node.http.get("/metrics").text
    assert driver.succeed(statement_id).applied
    assert node.statement(statement_id)["state"] == "success"
    assert node.http.get(f"/api/v1/statements/{statement_id}/result").json()["rows"] == [[1]]
    assert node.submit(session=session_id)["state"] == "waiting"


def test_a_waiting_call_gets_503_when_the_outage_begins(
    postgres_node: InProcessNode, server: PostgresServer
) -> None:
    node = postgres_node
    session_id, _driver = node.start_session()
    statement_id = node.submit(session=session_id)["id"]
    with ThreadPoolExecutor(1) as pool:
        path = f"/api/v1/statements/{statement_id}"
        answer = pool.submit(node.http.get, path, params={"wait_timeout": "30s"})
        topic = f"statement:{statement_id}"
        wait_until(lambda: topic in node.database.notifications._topics, what="the call waits")
        server.stop()
        try:
            assert answer.result(timeout=60).status_code == 503
        finally:
            server.start()
    wait_until(lambda: node.http.get("/ready").status_code == 200, what="the node is ready again")
    assert node.statement(statement_id)["state"] == "waiting"


def test_a_driver_does_not_lose_its_lease_during_an_outage(
    server: PostgresServer, tmp_path: Path
) -> None:
    """After an outage, every driver has a full lease to renew."""
    store = {"url": server.url(server.new_database()), "connect_timeout": "2s"}
    lease = {"duration": "2s", "sweep": "100ms"}
    with serve_node(make_settings(tmp_path, store=store, lease=lease)) as node:
        session_id, driver = node.start_session()
        hello_at = time.monotonic()
        server.stop()
        try:
            wait_until(lambda: time.monotonic() > hello_at + 2.5, what="the lease has run out")
        finally:
            server.start()
        wait_until(lambda: node.http.get("/ready").status_code == 200, what="the node is back")
        assert driver.renew().applied
        assert node.session_state(session_id) == "running"


def test_drivers_renew_their_leases_while_submits_wait_for_a_lock(
    server: PostgresServer, tmp_path: Path
) -> None:
    """All connections that submits may use are taken. The node says that it is not ready."""
    url = server.url(server.new_database())
    store = {"url": url, "connect_timeout": "5s", "pool_size": 5}
    with serve_node(make_settings(tmp_path, store=store)) as node:
        _session_id, driver = node.start_session()
        session_id = node.session()
        body = {"statement": "SELECT 1", "session": session_id}
        with psycopg.connect(url) as other, ThreadPoolExecutor(13) as pool:
            other.execute("LOCK TABLE events IN EXCLUSIVE MODE")
            submits = [
                pool.submit(node.http.post, "/api/v1/statements", json=body) for _ in range(12)
            ]
            wait_until(lambda: node.database._queue.waiting >= 8, what="the submits wait")
            ready = pool.submit(node.http.get, "/ready")
            assert driver.renew().applied
            assert not any(submit.done() for submit in submits)
            assert ready.result().status_code == 503
            codes = {submit.result().status_code for submit in submits}
            assert codes == {503}
            other.rollback()
        assert node.http.get("/ready").status_code == 200
        assert node.submit(session=session_id)["state"] == "waiting"
