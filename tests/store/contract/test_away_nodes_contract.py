"""Contract of nodes that were away: they judge no driver before a full lease has passed."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.store import register_node, running_session, set_present_since

from headrace.model.session import DriverLease
from headrace.store import nodes, tables
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import takeovers

pytestmark = pytest.mark.usefixtures("stopped_clock")

_AGO = -1.0


def fence_overdue(store: Database, lease: DriverLease) -> bool:
    """Fence a driver as the node `no_1`, if it is overdue. Return whether it was fenced."""
    with store.write("test") as tx:
        epoch = takeovers.fence(
            tx, lease, actor="no_1", reason="it died", seconds=60, only_if_overdue=True
        )
    return epoch is not None


@pytest.mark.finding("B1")
def test_a_node_that_was_away_gives_drivers_a_full_lease_before_it_judges_them(
    store: Database,
) -> None:
    register_node(store, "no_1")
    register_node(store, "no_2")
    lease = running_session(store, lease_seconds=_AGO)
    with store.write("test") as tx:
        nodes.mark_return(tx, "no_1", 60)
        assert takeovers.overdue(tx, 10, node="no_1", seconds=60) == []
    assert not fence_overdue(store, lease)
    # The other node was present all the time: its judgement applies.
    with store.read() as tx:
        [overdue] = takeovers.overdue(tx, 10, node="no_2", seconds=60)
    assert overdue.id == lease.session_id
    with store.write("test") as tx:
        set_present_since(tx, "no_1", clock(-61))
    assert fence_overdue(store, lease)


@pytest.mark.finding("B1")
def test_a_node_that_was_frozen_after_its_decision_cannot_fence_a_driver(store: Database) -> None:
    """The node found the driver overdue, was frozen, and continues with the fence."""
    register_node(store)
    lease = running_session(store, lease_seconds=_AGO)
    with store.write("test") as tx:
        node = update(tables.nodes).where(tables.nodes.c.id == "no_1")
        tx.execute(node.values(lease_until=clock(29)))  # renewed 31 of 60 seconds ago
    assert not fence_overdue(store, lease)
    with store.write("test") as tx:
        # The renewal comes late: the node was away, and waits for a whole lease.
        assert nodes.renew(tx, "no_1", 60)
    assert not fence_overdue(store, lease)


def test_regular_renewals_do_not_count_as_a_return(store: Database) -> None:
    register_node(store)
    lease = running_session(store, lease_seconds=_AGO)
    with store.write("test") as tx:
        node = update(tables.nodes).where(tables.nodes.c.id == "no_1")
        tx.execute(node.values(lease_until=clock(31)))
        assert nodes.renew(tx, "no_1", 60)
    assert fence_overdue(store, lease)


@pytest.mark.finding("B7")
def test_a_node_that_restarts_again_and_again_does_not_prevent_takeovers(store: Database) -> None:
    register_node(store, "no_1")
    lease = running_session(store, lease_seconds=_AGO)
    with store.write("test") as tx:
        for _restart in range(3):
            nodes.register(tx, "no_2", address="http://node.invalid", version="1", seconds=60)
            nodes.mark_return(tx, "no_2", 60)
        assert takeovers.overdue(tx, 10, node="no_2", seconds=60) == []
        [overdue] = takeovers.overdue(tx, 10, node="no_1", seconds=60)
    assert overdue.id == lease.session_id
    assert fence_overdue(store, lease)
