"""Warm drivers: kept started, and handed to new sessions."""

from __future__ import annotations

from typing import Any

from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until

from headrace.model.failure import Failure


def start_warm_node(start_node: StartNode, count: int = 1) -> InProcessNode:
    return start_node(lease={"sweep": "50ms"}, profiles={"default": {"warm": count}})


def launched(node: InProcessNode, count: int) -> list[str]:
    """The sessions that drivers were started for, once there are so many."""
    wait_until(lambda: len(node.launcher.started) >= count, what=f"{count} drivers are started")
    return [one["name"].split("-")[1] for one in node.launcher.started]


def test_a_new_session_takes_a_warm_driver_and_another_is_started(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = launched(node, 1)
    driver = node.launcher.connect_driver(warm)
    assert driver.hello().applied
    # Nobody's session is in nobody's list.
    assert node.http.get("/api/v1/sessions").json()["items"] == []
    session_id = node.session(name="mine")
    assert session_id == warm
    statement = node.submit(session="mine")["id"]
    assert driver.claim().statement_id == statement
    assert driver.succeed(statement).applied
    assert launched(node, 2)[0] == warm


def test_a_submit_without_a_session_takes_one_too(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = launched(node, 1)
    node.launcher.connect_driver(warm).hello()
    assert node.submit(kind="batch")["session_id"] == warm


def test_who_asks_for_something_else_gets_a_driver_of_its_own(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = launched(node, 1)
    node.launcher.connect_driver(warm).hello()
    asked: list[dict[str, Any]] = [
        {"conf": {"spark.executor.memory": "1g"}},
        {"catalog": "other"},
        {"database": "d"},
        {"jars": ["/a.jar"]},
        {"parallelism": 2},
    ]
    for body in asked:
        assert node.session(**body) != warm
    assert node.session() == warm


def test_a_lost_warm_driver_is_replaced(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = launched(node, 1)
    node.launcher.connect_driver(warm).hello()
    node.launcher.report_exit(warm, "killed by SIGKILL")
    other = launched(node, 2)[1]
    assert other != warm
    node.launcher.connect_driver(other).hello()
    assert node.session() == other


def test_drivers_that_cannot_start_are_not_started_for_ever(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = launched(node, 1)
    failure = Failure(code="spark_unavailable", message="no")
    with_driver = node.launcher.connect_driver(warm)
    with_driver.goodbye(failure)
    own = node.session()
    node.launcher.connect_driver(own)
    # Rounds of the sweeper have gone by since, as that launch shows.
    assert len(node.launcher.started) == 2


def test_what_is_too_much_is_closed(start_node: StartNode) -> None:
    node = start_warm_node(start_node, 3)
    first = launched(node, 3)
    for one in first:
        node.launcher.connect_driver(one).hello()
    node.node._warm_pool._sizes["default"] = 1
    wait_until(
        lambda: [node.launcher.connect_driver(one).poll().close for one in first].count(True) == 2
    )
