"""The lease of a node: a crashed node is gone at last, and a frozen node returns."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.in_process_node import StartNode, make_settings
from tests.support.store import register_node
from tests.support.waiting import wait_until

from headrace.control import node_lease
from headrace.control.context import NodeContext
from headrace.control.node_lease import ExpiredNodes
from headrace.model.lifecycle import NodeState
from headrace.store import nodes
from headrace.store.database import Database


def _read_states(store: Database) -> dict[str, NodeState]:
    with store.read() as tx:
        return {node.id: node.state for node in nodes.page(tx)}


@pytest.mark.usefixtures("stopped_clock")
def test_a_node_whose_lease_expired_long_ago_is_gone(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lease, "_GONE_SECONDS", 30.0)
    settings = make_settings(tmp_path, lease={"duration": "60s"})
    register_node(store, "no_1")
    with store.write("test") as tx:
        nodes.register(tx, "no_crashed", address="http://b", version="1", seconds=-31)
        nodes.register(tx, "no_away", address="http://c", version="1", seconds=-29)
    ExpiredNodes(NodeContext(store, settings, "no_1", "http://a")).run()
    assert _read_states(store) == {
        "no_1": NodeState.UP,
        "no_away": NodeState.UP,
        "no_crashed": NodeState.GONE,
    }


def test_a_node_that_counted_as_gone_registers_again_when_it_returns(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"renew": "50ms", "sweep": "1h"})
    node_id = node.node.id
    before = node.http.get("/api/v1/nodes").json()["items"]
    with node.database.write("test.gone") as tx:
        assert nodes.transition(tx, node_id, NodeState.GONE, actor="no_other")
    wait_until(lambda: _read_states(node.database) == {node_id: NodeState.UP})
    [after] = node.http.get("/api/v1/nodes").json()["items"]
    assert [after["profiles"], after["backends"]] == [before[0]["profiles"], before[0]["backends"]]
    assert after["started_at"] > before[0]["started_at"]
