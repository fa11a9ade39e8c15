from __future__ import annotations

from tests.support.in_process_node import InProcessNode, StartNode

from headrace import __version__


def test_a_node_lives_and_is_ready(node: InProcessNode) -> None:
    known = {"node_id": node.node.id, "version": __version__}
    health = node.http.get("/health")
    assert (health.status_code, health.json()) == (200, {"status": "ok", **known})
    ready = node.http.get("/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", **known})


def test_nodes_are_listed(node: InProcessNode) -> None:
    page = node.http.get("/api/v1/nodes").json()
    assert page["next"] is None
    (known,) = page["items"]
    assert (known["id"], known["address"], known["state"]) == (
        node.node.id,
        node.address,
        "up",
    )
    assert known["version"] == __version__
    assert known["ended_at"] is None


def test_a_node_file_tells_where_the_node_is(start_node: StartNode) -> None:
    node = start_node()
    file = node.node.settings.home / "node.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert node.address in file.read_text()
