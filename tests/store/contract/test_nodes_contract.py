"""Contract of nodes: each start is a registration, and the newest registration counts."""

from __future__ import annotations

from headrace.model.lifecycle import NodeState
from headrace.store import events, nodes
from headrace.store.database import Database, Tx


def _register(tx: Tx, node_id: str, address: str = "http://a:1", seconds: float = 60) -> int:
    return nodes.register(tx, node_id, address=address, version="1.2", seconds=seconds)


def test_a_registered_node_is_listed(store: Database) -> None:
    with store.write("test") as tx:
        _register(tx, "no_2", "http://b:1")
        _register(tx, "no_1")
        first, second = nodes.page(tx)
    assert (first.id, second.id) == ("no_1", "no_2")
    assert (first.address, first.version, first.state) == ("http://a:1", "1.2", NodeState.UP)
    assert first.started_at < first.lease_until
    assert first.ended_at is None


def test_a_node_that_starts_again_is_up(store: Database) -> None:
    with store.write("test") as tx:
        _register(tx, "no_1")
        assert nodes.transition(tx, "no_1", NodeState.GONE, actor="no_1")
        assert not nodes.renew(tx, "no_1", 60)
        _register(tx, "no_1", "http://a:2")
        assert nodes.renew(tx, "no_1", 60)
        assert [(node.address, node.state) for node in nodes.page(tx)] == [
            ("http://a:2", NodeState.UP)
        ]


def test_the_next_start_of_a_crashed_node_ends_its_former_registration(store: Database) -> None:
    with store.write("test") as tx:
        former = _register(tx, "no_1")
        present = _register(tx, "no_1", "http://a:2")
        assert not nodes.renew(tx, "no_1", 60, registration=former)
        assert nodes.renew(tx, "no_1", 60, registration=present)
        assert nodes.addresses(tx) == ["http://a:2"]
    with store.read() as tx:
        log = events.read(tx, after=None, entity="node", limit=9)
    assert [(event.source, event.target) for event in log] == [
        (None, "up"),
        ("up", "gone"),
        (None, "up"),
    ]


def test_addresses_are_those_of_nodes_that_are_up_with_a_valid_lease(store: Database) -> None:
    with store.write("test") as tx:
        _register(tx, "no_1", "http://up")
        _register(tx, "no_2", "http://lost", seconds=-1)
        _register(tx, "no_3", "http://draining")
        assert nodes.transition(tx, "no_3", NodeState.DRAINING, actor="ada")
        _register(tx, "no_4", "http://newer")
        assert nodes.addresses(tx) == ["http://newer", "http://up"]
        assert nodes.renew(tx, "no_2", 60)
        assert "http://lost" in nodes.addresses(tx)
