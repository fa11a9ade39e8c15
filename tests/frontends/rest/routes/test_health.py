"""Health and readiness of a node, and the file that contains its address."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from tests.support.in_process_node import InProcessNode, StartNode

from headrace import __version__


def test_a_running_node_is_healthy_and_ready(node: InProcessNode) -> None:
    identity = {"node_id": node.node.id, "version": __version__}
    health = node.http.get("/health")
    assert (health.status_code, health.json()) == (200, {"status": "ok", **identity})
    ready = node.http.get("/ready")
    assert (ready.status_code, ready.json()) == (
        200,
        {"status": "ready", **identity, "warnings": []},
    )


def test_the_private_node_file_contains_the_address_of_the_node(start_node: StartNode) -> None:
    node = start_node()
    file = node.node.settings.home / "node.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert node.address in file.read_text()


def test_a_node_is_not_ready_while_another_process_has_locked_its_store(
    start_node: StartNode,
) -> None:
    node = start_node(store={"connect_timeout": "1s"})
    statement = node.submit()
    file = node.node.settings.home / "headrace.db"

    with (
        closing(sqlite3.connect(file, isolation_level=None)) as other,
        ThreadPoolExecutor(50) as pool,
    ):
        other.execute("BEGIN IMMEDIATE")
        # Requests to /ready share a check, so that they do not take the threads of other requests.
        checks = [pool.submit(node.http.get, "/ready") for _ in range(50)]
        assert node.statement(statement["id"])["state"] == statement["state"]
        answers = {(each.result().status_code, each.result().json()["code"]) for each in checks}
        assert answers == {(503, "store_unavailable")}
        assert node.http.get("/health").status_code == 200
        other.execute("ROLLBACK")

    assert node.http.get("/ready").status_code == 200
