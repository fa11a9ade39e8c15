"""Statements that are claimed for a waiting poll by the transaction that stores them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode, watch_polls
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.control.driver_link import statements as link_statements
from headrace.model.ids import new_id
from headrace.model.messages import Orders
from headrace.model.session import DriverLease
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store.database import Tx
from headrace.store.sessions import takeovers
from headrace.store.statements import statement_transitions, statements
from headrace.store.statements.limits import Limit
from headrace.store.statements.statement_transitions import Claim


@contextmanager
def open_poll(
    node: InProcessNode, session_id: str, driver: ScriptedDriver, *, wait: float = 50
) -> Iterator[Future[Orders]]:
    """Keep a poll of the driver open, and wait until submits can claim for it."""
    polls = node.node.driver_link.waiting_polls
    with ThreadPoolExecutor(1) as pool:
        orders = pool.submit(driver.poll, wait=wait)
        wait_until(lambda: session_id in polls._open, what="the poll is open")
        yield orders


def start_session_with_patient_polls(node: InProcessNode) -> tuple[str, ScriptedDriver]:
    """Return a session whose driver has polled before: its first poll at a process is short."""
    session_id, driver = node.start_session()
    driver.poll()
    return session_id, driver


def make_statement(node: InProcessNode, session_id: str) -> NewStatement:
    """Return a query in a session that is not stored yet."""
    return NewStatement(
        id=new_id("st"),
        session_id=session_id,
        owner=node.describe_session(session_id)["owner"],
        spec=StatementSpec(text="SELECT 1"),
        is_query=True,
    )


def test_a_submit_claims_its_statement_for_the_open_poll(node: InProcessNode) -> None:
    session_id, driver = start_session_with_patient_polls(node)
    with open_poll(node, session_id, driver) as orders:
        before = Counter(node.database.write_counts)
        submitted = node.submit(session=session_id)
        assignment = orders.result(60).assignment
    assert assignment is not None
    assert assignment.statement_id == submitted["id"]
    assert submitted["state"] == "launched"
    after = Counter(node.database.write_counts)
    assert (after - before)["statement.submit"] == 1
    assert (after - before)["link.claim"] == 0
    assert [event["to"] for event in node.events(submitted["id"])] == ["waiting", "launched"]
    assert driver.succeed(submitted["id"]).applied


def test_a_poll_outlives_a_submit_that_is_rolled_back(node: InProcessNode) -> None:
    session_id, driver = start_session_with_patient_polls(node)
    polls = node.node.driver_link.waiting_polls
    new = make_statement(node, session_id)
    with open_poll(node, session_id, driver) as orders, watch_polls(node) as answered:
        with pytest.raises(LookupError), node.database.write("test") as tx:
            statements.insert(tx, new, actor=new.owner)
            claimed = polls.claim(tx, session_id)
            assert claimed is not None
            assert claimed.id == new.id
            raise LookupError
        assert answered.wait(60)
        wait_until(lambda: session_id in polls._open, what="the poll is open again")
        assert not orders.done()
        submitted = node.submit(session=session_id)
        assignment = orders.result(60).assignment
    assert assignment is not None
    assert assignment.statement_id == submitted["id"]


def test_a_statement_claimed_for_a_poll_that_has_ended_goes_to_the_next_poll(
    node: InProcessNode,
) -> None:
    session_id, driver = start_session_with_patient_polls(node)
    new = make_statement(node, session_id)
    with open_poll(node, session_id, driver, wait=3) as orders, node.database.write("test") as tx:
        statements.insert(tx, new, actor=new.owner)
        assert node.node.driver_link.waiting_polls.claim(tx, session_id) is not None
        assert orders.result(60).assignment is None
    assignment = driver.poll().assignment
    assert assignment is not None
    assert (assignment.statement_id, assignment.attempt) == (new.id, 1)


def test_a_poll_that_a_newer_one_replaces_leaves_it_what_was_claimed(
    node: InProcessNode,
) -> None:
    session_id, driver = start_session_with_patient_polls(node)
    new = make_statement(node, session_id)
    polls = node.node.driver_link.waiting_polls
    with open_poll(node, session_id, driver) as orders, ThreadPoolExecutor(1) as pool:
        with node.database.write("test") as tx:
            statements.insert(tx, new, actor=new.owner)
            assert polls.claim(tx, session_id) is not None
            newer = pool.submit(driver.poll, wait=50)
            assert orders.result(60).assignment is None
            wait_until(lambda: session_id in polls._open, what="the newer poll is open")
        assignment = newer.result(60).assignment
    assert assignment is not None
    assert assignment.statement_id == new.id


def test_the_oldest_statement_is_claimed_even_if_another_one_is_submitted(
    node: InProcessNode,
) -> None:
    session_id, driver = start_session_with_patient_polls(node)
    with open_poll(node, session_id, driver) as orders:
        older = make_statement(node, session_id)
        newer = make_statement(node, session_id)
        with node.database.write("test") as tx:
            for new in (older, newer):
                statements.insert(tx, new, actor=new.owner)
            claimed = node.node.driver_link.waiting_polls.claim(tx, session_id)
        assert claimed is not None
        assert claimed.id == older.id
        assignment = orders.result(60).assignment
    assert assignment is not None
    assert assignment.statement_id == older.id
    assert node.statement(newer.id)["state"] == "waiting"


def test_a_superseded_driver_gets_no_statement(node: InProcessNode) -> None:
    session_id, driver = start_session_with_patient_polls(node)
    lease = DriverLease(session_id, driver.bootstrap.epoch)
    new = make_statement(node, session_id)
    with open_poll(node, session_id, driver) as orders:
        with node.database.write("test") as tx:
            statements.insert(tx, new, actor=new.owner)
            assert takeovers.fence(tx, lease, actor="test", reason="a test", seconds=60.0)
            assert node.node.driver_link.waiting_polls.claim(tx, session_id) is None
        with pytest.raises(httpx.HTTPStatusError):
            orders.result(60)
    assert node.statement(new.id)["state"] == "waiting"


def test_a_claim_that_finds_nothing_is_not_tried_again(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, driver = node.start_session(parallelism=1)
    node.submit(session=session_id)
    running = driver.claim().statement_id
    claims = []

    def claim_next(tx: Tx, lease: DriverLease, *limit: Limit, **effects: bool) -> Claim | None:
        claims.append(lease.session_id)
        return statement_transitions.claim_next(tx, lease, *limit, **effects)

    monkeypatch.setattr(link_statements, "claim_next", claim_next)
    with ThreadPoolExecutor(1) as pool, watch_polls(node) as answered:
        orders = pool.submit(driver.poll, in_flight=[running], wait=30)
        assert answered.wait(60)
        for _ in range(3):
            answered.clear()
            node.submit(session=session_id)
            assert answered.wait(60)
        assert claims.count(session_id) == 1
        node.http.post(f"/api/v1/statements/{running}/cancel")
        assert orders.result(timeout=60).cancel == [running]


def test_a_limit_on_running_statements_prevents_the_claim(start_node: StartNode) -> None:
    node = start_node(limits={"running_statements": 1})
    busy, other = start_session_with_patient_polls(node), start_session_with_patient_polls(node)
    running = node.submit(session=busy[0])["id"]
    assert busy[1].claim().statement_id == running
    with ThreadPoolExecutor(1) as pool:
        orders = pool.submit(other[1].poll, wait=50)
        submitted = node.submit(session=other[0])
        assert submitted["state"] == "waiting"
        assert busy[1].succeed(running).applied
        assignment = orders.result(60).assignment
    assert assignment is not None
    assert assignment.statement_id == submitted["id"]
