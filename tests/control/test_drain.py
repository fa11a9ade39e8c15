"""The drain of a node: it begins nothing new, hands its work over, and leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.store import set_present_since
from tests.support.waiting import wait_until

from headrace.store.clock import clock
from headrace.store.tables import nodes as node_table

_QUICK = {"renew": "100ms", "sweep": "50ms"}


@contextmanager
def serve_cluster_node(home: Path, store: str) -> Iterator[InProcessNode]:
    settings = make_settings(home, store={"url": store}, lease=_QUICK)
    with serve_node(settings) as node:
        yield node


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: str) -> Iterator[tuple[InProcessNode, InProcessNode]]:
    """Return two nodes of one store."""
    with (
        serve_cluster_node(tmp_path / "one", postgres_url) as one,
        serve_cluster_node(tmp_path / "two", postgres_url) as two,
    ):
        yield one, two


@pytest.fixture
def left(nodes: tuple[InProcessNode, InProcessNode]) -> threading.Event:
    """Return an event that is set when the first node asks its server to stop."""
    event = threading.Event()
    nodes[0].node._request_stop = event.set
    return event


def end_lease(node: InProcessNode) -> None:
    """End the lease of a node that does not renew it."""
    with node.database.write("test") as tx:
        own = update(node_table).where(node_table.c.id == node.node.id)
        tx.execute(own.values(lease_until=clock(-1)))


def read_state(asked: InProcessNode, node: InProcessNode) -> str:
    listed = asked.http.get("/api/v1/nodes").json()["items"]
    return str(next(each["state"] for each in listed if each["id"] == node.node.id))


def test_a_node_drains_on_the_request_of_another_one(
    nodes: tuple[InProcessNode, InProcessNode], left: threading.Event
) -> None:
    leaving, staying = nodes
    response = staying.http.post(f"/api/v1/nodes/{leaving.node.id}/drain")
    assert left.wait(60)

    assert (response.status_code, response.json()["state"]) == (202, "draining")
    ready = leaving.http.get("/ready")
    assert (ready.status_code, ready.json()["code"]) == (503, "node_not_ready")
    assert staying.http.get("/ready").status_code == 200
    # It still serves what it is asked.
    assert read_state(leaving, leaving) == "draining"


def test_a_draining_node_launches_nothing_and_its_drivers_learn_the_other_nodes(
    nodes: tuple[InProcessNode, InProcessNode], left: threading.Event
) -> None:
    leaving, staying = nodes
    staying.node._tasks.stop()
    session_id = leaving.session()
    driver = leaving.launcher.connect_driver(session_id)
    assert driver.hello().applied
    assert leaving.node.drain()
    assert left.wait(60)
    pending = leaving.session()

    assert driver.renew().nodes == [staying.address]
    assert len(leaving.launcher.started) == 1
    assert leaving.session_state(pending) == "not_started"
    assert not leaving.node.drain()


def test_a_node_waits_for_the_drivers_that_it_is_starting(
    nodes: tuple[InProcessNode, InProcessNode], left: threading.Event
) -> None:
    leaving, staying = nodes
    staying.node._tasks.stop()
    is_started = threading.Event()
    starting = threading.Event()

    def wait_in_start(_name: str) -> None:
        starting.set()
        assert is_started.wait(60)

    leaving.launcher.on_start = wait_in_start
    session_id = leaving.session()
    assert starting.wait(60)
    leaving.node.drain()
    assert not left.wait(0.5)
    is_started.set()
    assert left.wait(60)

    assert leaving.launcher.connect_driver(session_id).hello().applied


def test_a_stopped_node_is_gone_and_the_other_one_launches(
    tmp_path: Path, postgres_url: str
) -> None:
    with serve_cluster_node(tmp_path / "two", postgres_url) as staying:
        with serve_cluster_node(tmp_path / "one", postgres_url) as leaving:
            leaving.node.drain()
        session_id = staying.session()

        assert read_state(staying, leaving) == "gone"
        assert staying.launcher.connect_driver(session_id).hello().applied
        again = staying.http.post(f"/api/v1/nodes/{leaving.node.id}/drain")
        assert (again.status_code, again.json()["code"]) == (409, "node_state_conflict")


def test_only_a_node_without_a_lease_can_be_confirmed_as_gone(
    nodes: tuple[InProcessNode, InProcessNode],
) -> None:
    lost, staying = nodes
    path = f"/api/v1/nodes/{lost.node.id}/gone"
    live = staying.http.post(path, json={"confirmed": True})
    lost.node._lease.stop()
    unconfirmed = staying.http.post(path, json={"confirmed": False})
    end_lease(lost)
    assert staying.http.post(path, json={"confirmed": True}).status_code == 200
    missing = staying.http.post("/api/v1/nodes/no_x/gone", json={"confirmed": True})

    assert (live.status_code, live.json()["code"]) == (409, "node_state_conflict")
    assert unconfirmed.status_code == 400
    assert (missing.status_code, missing.json()["code"]) == (404, "node_not_found")
    assert read_state(staying, lost) == "gone"


def test_a_launch_is_taken_over_when_the_lease_of_its_node_expires(
    tmp_path: Path, postgres_url: str
) -> None:
    with serve_cluster_node(tmp_path / "two", postgres_url) as staying:
        with serve_cluster_node(tmp_path / "one", postgres_url) as lost:
            staying.node._tasks.stop()
            claimed, held = threading.Event(), threading.Event()

            def hold(_name: str) -> None:
                claimed.set()
                assert held.wait(120)

            lost.launcher.on_start = hold
            session_id = lost.session()
            assert claimed.wait(60)
            # The node is frozen between its claim and the start of the driver.
            lost.node._lease.stop()
            lost.node._tasks.stop()
            staying.node._tasks = staying.node._make_tasks()
            staying.node._tasks.start()

            def is_launched() -> bool:
                end_lease(lost)
                with staying.database.write("test") as tx:
                    # A node judges others only after it has been present for a lease.
                    set_present_since(tx, staying.node.id, clock(-3600))
                return bool(staying.launcher.started)

            wait_until(is_launched, what="the other node launches the driver")
            driver = staying.launcher.connect_driver(session_id)
            assert driver.hello().applied
            held.set()
        assert staying.session_state(session_id) == "running"
