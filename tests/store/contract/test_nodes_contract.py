"""Contract of nodes: each start is a registration, and the newest registration counts."""

from __future__ import annotations

import pytest
from tests.support.store import read_changes, set_present_since

from headrace.model.lifecycle import NodeState
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.database import Database, Tx

pytestmark = pytest.mark.usefixtures("stopped_clock")


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
        assert _register(tx, "no_1") < _register(tx, "no_1", "http://a:2")
        assert nodes.renew(tx, "no_1", 60)
        assert nodes.addresses(tx) == ["http://a:2"]
    with store.read() as tx:
        log = read_changes(tx, entity="node")
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


def test_a_node_ends_the_registration_of_a_node_whose_lease_expired_long_ago(
    store: Database,
) -> None:
    with store.write("test") as tx:
        _register(tx, "no_1", seconds=60)
        _register(tx, "no_2", seconds=-101)
        _register(tx, "no_3", seconds=-99)
        set_present_since(tx, "no_1", clock(-101))
        assert nodes.end_expired(tx, "no_1", 60, patience=100) == ["no_2"]
        assert nodes.end_expired(tx, "no_1", 60, patience=100) == []
    with store.read() as tx:
        *_, last = read_changes(tx, entity="node")
    assert (last.entity_id, last.source, last.target, last.actor) == ("no_2", "up", "gone", "no_1")
    assert last.detail == {"reason": "its lease expired"}


def test_a_node_that_has_just_returned_ends_no_other_node(store: Database) -> None:
    """After an outage of the store, the leases of all nodes have expired."""
    with store.write("test") as tx:
        _register(tx, "no_1", seconds=60)
        _register(tx, "no_2", seconds=-101)
        set_present_since(tx, "no_1", clock(-99))
        assert nodes.end_expired(tx, "no_1", 60, patience=100) == []
        assert nodes.renew(tx, "no_2", 60)
