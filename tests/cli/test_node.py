"""The commands for the nodes of a cluster."""

from __future__ import annotations

from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode


def test_nodes_are_listed(node: ScriptedNode, headrace: RunHeadrace) -> None:
    completed = headrace("node", "list", "--format", "json")

    assert f'"id": "{node.node_id}"' in completed.stdout
    assert '"state": "up"' in completed.stdout


def test_a_node_is_drained(node: ScriptedNode, headrace: RunHeadrace) -> None:
    completed = headrace("node", "drain", node.node_id)

    assert completed.returncode == 0
    assert completed.stderr == f"Node {node.node_id} is draining.\n"


def test_the_end_of_a_node_must_be_confirmed(node: ScriptedNode, headrace: RunHeadrace) -> None:
    unconfirmed = headrace("node", "gone", node.node_id)
    confirmed = headrace("node", "gone", node.node_id, "--confirmed")

    assert unconfirmed.returncode == 2
    assert "--confirmed" in unconfirmed.stderr
    assert (confirmed.returncode, confirmed.stderr) == (0, f"Node {node.node_id} is gone.\n")


def test_an_unknown_node_is_an_error(node: ScriptedNode, headrace: RunHeadrace) -> None:
    completed = headrace("node", "drain", "no_x")

    assert node.node_id != "no_x"
    assert completed.returncode != 0
    assert "There is no node 'no_x'." in completed.stderr
