"""A driver polls another node than before: it is woken there, also by other nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.scripted_driver import ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.model.messages import Orders

_LONG = 50.0  # seconds


@pytest.fixture
def two_nodes(tmp_path: Path, postgres_url: str) -> Iterator[list[InProcessNode]]:
    launcher = ScriptedLauncher()
    with ExitStack() as stack:
        nodes = []
        for name in ("one", "two"):
            settings = make_settings(tmp_path / name, store={"url": postgres_url})
            nodes.append(stack.enter_context(serve_node(settings, launcher)))
            assert nodes[-1].database.wait_until_listening(60.0)
        yield nodes


def test_only_the_first_poll_at_a_node_is_short(two_nodes: list[InProcessNode]) -> None:
    first, second = two_nodes
    _session_id, driver = first.start_session()
    driver.move_to(second.address)
    start = time.monotonic()
    assert driver.poll(wait=_LONG) == Orders()
    assert time.monotonic() - start < _LONG / 2
    moves = second.database.write_counts["link.move"]
    driver.poll(wait=1.5)
    assert second.database.write_counts["link.move"] == moves == 1


def test_a_submit_at_one_node_wakes_a_poll_at_another(two_nodes: list[InProcessNode]) -> None:
    first, second = two_nodes
    session_id, driver = first.start_session()
    orders: list[Orders] = []
    for holder, submitter in ((second, first), (first, second)):
        driver.move_to(holder.address)
        driver.poll(wait=0)
        poll = threading.Thread(target=lambda: orders.append(driver.poll(wait=_LONG)))
        poll.start()
        start = time.monotonic()
        statement_id = submitter.submit(session=session_id)["id"]
        poll.join()
        assert time.monotonic() - start < _LONG / 2
        assignment = orders.pop().assignment
        assert assignment is not None
        assert assignment.statement_id == statement_id
        driver.succeed(statement_id)


def test_a_statement_claimed_for_an_abandoned_poll_reaches_the_poll_at_another_node(
    two_nodes: list[InProcessNode],
) -> None:
    first, second = two_nodes
    session_id, driver = first.start_session()
    driver.poll()
    with ThreadPoolExecutor(2) as pool:
        polls = []
        for node in (first, second):
            driver.move_to(node.address)
            driver.poll()
            open_polls = node.node.driver_link.waiting_polls._open
            polls.append(pool.submit(driver.poll, wait=_LONG))
            wait_until(lambda polls=open_polls: session_id in polls, what="the poll is open")
        # The first node does not know that the driver waits no more for its answer.
        statement_id = first.submit(session=session_id)["id"]
        assignments = [poll.result(_LONG / 2).assignment for poll in polls]
    assert assignments[0] == assignments[1]
    assert assignments[1] is not None
    assert (assignments[1].statement_id, assignments[1].attempt) == (statement_id, 1)
