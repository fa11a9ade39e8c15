"""The warm pool: drivers that start before a session needs them."""

from __future__ import annotations

from typing import Any

from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.waiting import wait_until

from headrace.model.failure import Failure


def start_warm_node(start_node: StartNode, count: int = 1) -> InProcessNode:
    return start_node(lease={"sweep": "50ms"}, profiles={"default": {"warm": count}})


def wait_for_launches(node: InProcessNode, count: int) -> list[str]:
    """Wait until a number of drivers have started, and return the ids of their sessions."""
    wait_until(lambda: len(node.launcher.started) >= count, what=f"{count} drivers are started")
    return [handle["name"].split("-")[1] for handle in node.launcher.started]


def test_a_new_session_gets_a_warm_driver_and_another_one_starts(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    driver = node.launcher.connect_driver(warm)
    assert driver.hello().applied
    # A warm session belongs to no user yet, so no list contains it.
    assert node.http.get("/api/v1/sessions").json()["items"] == []
    session_id = node.session(name="mine")
    assert session_id == warm
    statement = node.submit(session="mine")["id"]
    assert driver.claim().statement_id == statement
    assert driver.succeed(statement).applied
    assert wait_for_launches(node, 2)[0] == warm


def test_a_submit_without_a_session_gets_a_warm_driver(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    node.launcher.connect_driver(warm).hello()
    assert node.submit(kind="batch")["session_id"] == warm


def test_a_session_with_other_fields_gets_a_driver_of_its_own(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    node.launcher.connect_driver(warm).hello()
    requests: list[dict[str, Any]] = [
        {"conf": {"spark.executor.memory": "1g"}},
        {"catalog": "other"},
        {"database": "d"},
        {"jars": ["/a.jar"]},
        {"parallelism": 2},
    ]
    for body in requests:
        assert node.session(**body) != warm
    assert node.session() == warm


def test_a_lost_warm_driver_is_replaced(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    node.launcher.connect_driver(warm).hello()
    node.launcher.report_exit(warm, "killed by SIGKILL")
    other = wait_for_launches(node, 2)[1]
    assert other != warm
    node.launcher.connect_driver(other).hello()
    assert node.session() == other


def test_warm_drivers_that_cannot_start_are_not_started_again_and_again(
    start_node: StartNode,
) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    failure = Failure(code="spark_unavailable", message="no")
    node.launcher.connect_driver(warm).goodbye(failure)
    session_id = node.session()
    node.launcher.connect_driver(session_id)
    # The launch of that session shows that the periodic tasks have run since.
    assert len(node.launcher.started) == 2


def test_warm_drivers_beyond_the_configured_number_are_closed(start_node: StartNode) -> None:
    node = start_warm_node(start_node, 3)
    warm = wait_for_launches(node, 3)
    for session_id in warm:
        node.launcher.connect_driver(session_id).hello()
    node.node._warm_pool._sizes["default"] = 1

    def count_closed() -> int:
        return sum(node.launcher.connect_driver(session_id).poll().close for session_id in warm)

    wait_until(lambda: count_closed() == 2)
