"""The list of nodes."""

from __future__ import annotations

from tests.support.in_process_node import InProcessNode

from headrace import __version__


def test_nodes_are_listed_with_address_state_and_version(node: InProcessNode) -> None:
    page = node.http.get("/api/v1/nodes").json()
    assert page["next"] is None
    (listed_node,) = page["items"]
    assert (listed_node["id"], listed_node["address"]) == (node.node.id, node.address)
    assert listed_node["state"] == "up"
    assert listed_node["version"] == __version__
    assert listed_node["ended_at"] is None
