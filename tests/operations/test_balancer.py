"""Two nodes on PostgreSQL behind nginx, with the configuration of the operations guide.

The third node of the configuration is down all the time. No test starts Spark.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.support.balanced_nodes import (
    HEADER,
    NEEDS_NO_DRIVER,
    TOKEN,
    BalancedNodes,
    balanced_nodes,
)
from tests.support.node_client import ENDED
from tests.support.postgres import Postgres
from tests.support.waiting import wait_until

from headrace.client.http import Client
from headrace.frontends.http.body_limit import BODY_LIMIT

pytestmark = [pytest.mark.postgres, pytest.mark.nginx]


@pytest.fixture(scope="module")
def nodes(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BalancedNodes]:
    """Yield two nodes for all tests that end none of them."""
    database = postgres.new_database()
    with balanced_nodes(tmp_path_factory.mktemp("balanced"), postgres.url(database)) as balanced:
        yield balanced
    postgres.drop(database)


@pytest.fixture
def mortal_nodes(postgres_url: str, tmp_path: Path) -> Iterator[BalancedNodes]:
    """Yield two nodes for one test, which may end the first."""
    with balanced_nodes(tmp_path, postgres_url) as balanced:
        yield balanced


def test_both_nodes_answer_and_read_what_either_has_accepted(nodes: BalancedNodes) -> None:
    answered_by = {nodes.http.get("/health").json()["node_id"] for _ in range(6)}
    statements = [nodes.submit(f"key-{number}")["id"] for number in range(4)]

    def list_actors() -> set[str]:
        events = [event for statement in statements for event in nodes.first.events(statement)]
        return {event["actor"] for event in events if event["to"] == "success"}

    assert answered_by == nodes.ids
    # A transaction of another database of the server delays the newest events.
    wait_until(lambda: list_actors() == nodes.ids, what="both nodes have run a statement")
    for node in (nodes.first, nodes.second):
        assert {node.statement(statement)["state"] for statement in statements} == {"success"}
        assert node.result(statements[0])["rows"] == []


def test_events_pass_while_the_stream_stays_open(nodes: BalancedNodes) -> None:
    follow = {"Accept": "text/event-stream"}
    with nodes.http.stream("GET", "/api/v1/events", headers=follow, timeout=60) as stream:
        lines = stream.iter_lines()
        submitted = nodes.second.run(NEEDS_NO_DRIVER)["id"]
        # The read of a line fails after a minute: a proxy that collects events would not send it.
        while (line := next(lines)) != "":
            pass
        states = []
        while "success" not in states:
            line = next(lines)
            event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            states += [event["to"]] if event.get("entity_id") == submitted else []

    assert states == ["waiting", "success"]


def test_a_long_poll_returns_when_the_statement_ends(nodes: BalancedNodes) -> None:
    statement = nodes.second.submit("SELECT 1")["id"]
    path = f"/api/v1/statements/{statement}"
    early = nodes.http.get(path, params={"wait_timeout": "1s"})
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(nodes.http.get, path, params={"wait_timeout": "60s"})
        nodes.second.http.post(f"{path}/cancel", json={})
        answer = poll.result(60)

    assert (early.json()["state"], early.elapsed.total_seconds() >= 1) == ("waiting", True)
    assert (answer.json()["state"], answer.elapsed.total_seconds() < 50) == ("cancelled", True)


def test_the_node_explains_why_a_body_is_refused(nodes: BalancedNodes) -> None:
    body = b'{"statement": "' + b"x" * BODY_LIMIT + b'"}'
    refused = nodes.http.post(
        "/api/v1/statements", content=body, headers={"Content-Type": "application/json"}
    )

    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")


def test_requests_succeed_and_no_statement_is_doubled_when_a_node_is_killed(
    mortal_nodes: BalancedNodes,
) -> None:
    last = 60
    accepted: list[str] = []
    reads: list[int] = []
    is_over = threading.Event()

    def read() -> None:
        with httpx.Client(base_url=mortal_nodes.url, headers=HEADER, timeout=60) as http:
            while not is_over.is_set():
                reads.append(http.get("/api/v1/statements", params={"limit": 1}).status_code)

    def submit() -> None:
        accepted.extend(mortal_nodes.submit(f"key-{number}")["id"] for number in range(last))

    with ThreadPoolExecutor(2) as pool:
        reading, submitting = pool.submit(read), pool.submit(submit)
        try:
            wait_until(lambda: len(accepted) >= 10 and len(reads) >= 10, what="both are at work")
            mortal_nodes.first.kill()
            at_kill = len(reads)
            submitting.result(120)
            wait_until(lambda: reading.done() or len(reads) > at_kill + 10, what="reads continue")
        finally:
            is_over.set()
        reading.result(60)

    assert set(reads) == {200}
    assert len(set(accepted)) == last
    assert sorted(mortal_nodes.list_statements()) == sorted(accepted)


def test_a_client_of_the_balancer_waits_across_the_end_of_a_node(
    mortal_nodes: BalancedNodes,
) -> None:
    with Client(mortal_nodes.url, TOKEN) as client:
        before = client.submit({"statement": NEEDS_NO_DRIVER})
        mortal_nodes.first.kill()
        after = [client.submit({"statement": NEEDS_NO_DRIVER}) for _ in range(6)]
        states = {client.statement(each["id"])["state"] for each in [before, *after]}

    assert states <= ENDED
    assert len(mortal_nodes.list_statements()) == 7
