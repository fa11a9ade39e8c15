"""Contract of the outbox: a message is claimed by one node at a time, and is never lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from headrace.model.delivery import (
    RECENT_MESSAGES,
    Delivery,
    DeliveryState,
    EndpointState,
    NewDelivery,
    RecentDeliveries,
)
from headrace.store import deliveries
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.tables import deliveries as table

ENDPOINT = "wh_1"


def insert(store: Database, count: int = 1, endpoint: str = ENDPOINT) -> None:
    new = [
        NewDelivery(
            endpoint=endpoint, owner="ada", kind="run.failed", subject=f"rn_{number}", payload="{}"
        )
        for number in range(count)
    ]
    with store.write("test") as tx:
        deliveries.insert_deliveries(tx, new)


def claim(
    store: Database, *, seconds: float = 60, limit: int = 10, without: tuple[str, ...] = ()
) -> list[Delivery]:
    with store.write("test") as tx:
        return deliveries.claim_due(tx, seconds, limit, without=without)


def read(store: Database, endpoint: str = ENDPOINT) -> list[Delivery]:
    with store.read() as tx:
        return deliveries.page(tx, endpoint, before=None, limit=100)


def test_an_endpoint_gets_one_message_about_a_subject(store: Database) -> None:
    insert(store, 2)
    insert(store, 3)
    insert(store, 1, "wh_2")
    assert [each.subject for each in read(store)] == ["rn_2", "rn_1", "rn_0"]
    assert len(read(store, "wh_2")) == 1


def test_three_nodes_claim_different_messages(store: Database) -> None:
    insert(store, 30)
    with ThreadPoolExecutor(3) as nodes:
        batches = list(nodes.map(lambda _number: claim(store), range(3)))
    ids = [each.id for batch in batches for each in batch]
    assert len(ids) == len(set(ids)) > 0
    assert all(each.attempts == 1 for batch in batches for each in batch)


def test_the_message_of_a_killed_node_is_claimed_again_with_its_id(store: Database) -> None:
    insert(store)
    [lost] = claim(store)
    assert claim(store) == []
    with store.write("test") as tx:
        tx.execute(update(table).values(next_at=clock(-1)))
    [again] = claim(store)
    assert (again.id, again.attempts) == (lost.id, 2)
    # The first node was frozen, and records its outcome now.
    with store.write("test") as tx:
        deliveries.record_failed(tx, lost, error="late", status=None)
    [delivery] = read(store)
    assert (delivery.state, delivery.last_error) == (DeliveryState.WAITING, None)
    with store.write("test") as tx:
        deliveries.record_sent(tx, again, status=200)
    [delivery] = read(store)
    assert (delivery.state, delivery.next_at) == (DeliveryState.SENT, None)
    assert claim(store) == []


def test_a_postponed_message_is_due_later_and_a_failed_one_never(store: Database) -> None:
    insert(store, 2)
    first, second = claim(store)
    with store.write("test") as tx:
        deliveries.postpone(tx, first, 60, error="down", status=503)
        deliveries.record_failed(tx, second, error="gone", status=None)
        assert not deliveries.has_due(tx)
    found = {each.id: each for each in read(store)}
    states = {id_: (each.state, each.last_error, each.last_status) for id_, each in found.items()}
    assert states == {
        first.id: (DeliveryState.WAITING, "down", 503),
        second.id: (DeliveryState.FAILED, "gone", None),
    }
    assert all(each.attempted_at is not None for each in found.values())


def test_messages_of_busy_endpoints_are_left_out(store: Database) -> None:
    insert(store, 3)
    insert(store, 1, "wh_2")
    [other] = claim(store, without=(ENDPOINT,))
    assert other.endpoint == "wh_2"
    with store.read() as tx:
        assert deliveries.has_due(tx)
        assert not deliveries.has_due(tx, without=[ENDPOINT])


def test_an_endpoint_is_judged_by_its_last_messages(store: Database) -> None:
    def read_recent() -> RecentDeliveries:
        with store.read() as tx:
            return deliveries.read_recent(tx, [ENDPOINT, "wh_2"])[ENDPOINT]

    insert(store, 1, "wh_2")
    assert read_recent().state is EndpointState.UNUSED
    insert(store, RECENT_MESSAGES)
    assert (read_recent().state, read_recent().waiting) == (EndpointState.UNUSED, RECENT_MESSAGES)
    first, second, *_others = claim(store, limit=RECENT_MESSAGES, without=("wh_2",))
    with store.write("test") as tx:
        deliveries.record_sent(tx, first, status=200)
    sent = read_recent()
    assert (sent.state, sent.last_failure_at) == (EndpointState.ARRIVING, None)
    with store.write("test") as tx:
        deliveries.postpone(tx, second, 0, error="down", status=503)
    failing = read_recent()
    assert (failing.state, failing.last_error) == (EndpointState.FAILING, "down")
    assert (failing.last_sent_at, failing.waiting) == (sent.last_sent_at, RECENT_MESSAGES - 1)
    [again] = claim(store, limit=1, without=("wh_2",))
    assert again.id == second.id
    with store.write("test") as tx:
        deliveries.record_sent(tx, again, status=204)
    # The failure before the arrival of the same message does not count.
    assert (read_recent().state, read_recent().last_error) == (EndpointState.ARRIVING, None)
    with store.write("test") as tx:
        new = NewDelivery(endpoint=ENDPOINT, owner="ada", kind="a", subject="b", payload="{}")
        deliveries.insert_deliveries(tx, [new])
    assert read_recent().waiting == RECENT_MESSAGES - 1


def test_a_message_joins_the_transaction_of_its_fact(store: Database) -> None:
    new = NewDelivery(endpoint=ENDPOINT, owner=None, kind="a", subject="b", payload="{}")
    with pytest.raises(RuntimeError), store.write("test") as tx:
        deliveries.insert_deliveries(tx, [new])
        raise RuntimeError
    assert read(store) == []


def test_old_messages_are_deleted(store: Database) -> None:
    insert(store, 3)
    oldest = read(store)[-1].id
    with store.write("test") as tx:
        tx.execute(update(table).where(table.c.id == oldest).values(created_at=clock(-100)))
        assert deliveries.delete_old(tx, 50, 10) == 1
    assert oldest not in {each.id for each in read(store)}
    with store.write("test") as tx:
        assert deliveries.delete_of_endpoint(tx, ENDPOINT, 1) == 1
    assert len(read(store)) == 1
