"""Health and readiness of a node, and the file that contains its address."""

from __future__ import annotations

from tests.support.in_process_node import InProcessNode, StartNode

from headrace import __version__


def test_a_running_node_is_healthy_and_ready(node: InProcessNode) -> None:
    identity = {"node_id": node.node.id, "version": __version__}
    health = node.http.get("/health")
    assert (health.status_code, health.json()) == (200, {"status": "ok", **identity})
    ready = node.http.get("/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", **identity})


def test_the_private_node_file_contains_the_address_of_the_node(start_node: StartNode) -> None:
    node = start_node()
    file = node.node.settings.home / "node.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert node.address in file.read_text()
