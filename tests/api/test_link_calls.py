"""The calls of one driver are limited, and do not keep the node from serving others."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.in_process_node import InProcessNode
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.model.messages import LINK_PREFIX

pytestmark = pytest.mark.finding("S16")


def begin_report(driver: ScriptedDriver) -> socket.socket:
    """Open a connection and send a part of a report."""
    bootstrap = driver.bootstrap
    url = urlsplit(bootstrap.nodes[0])
    head = (
        f"POST {LINK_PREFIX}/{bootstrap.session_id}/{bootstrap.epoch}/ended HTTP/1.1\r\n"
        f"Host: {url.netloc}\r\nAuthorization: Bearer {bootstrap.token}\r\n"
        "Content-Length: 1000\r\n\r\n{"
    )
    connection = socket.create_connection((url.hostname, url.port), 10)
    connection.sendall(head.encode())
    return connection


def renew(driver: ScriptedDriver) -> httpx.Response:
    return driver._client.post("/renew", json={})


def test_a_new_poll_releases_the_older_poll_of_the_same_driver(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    _other_session, other = node.start_session()
    with ThreadPoolExecutor(3) as pool:
        foreign = pool.submit(other.poll, wait=30)
        older = pool.submit(driver.poll, wait=30)
        topic = f"session:{session_id}"
        wait_until(lambda: topic in node.database.notifications._topics, what="the poll is open")
        newer = pool.submit(driver.poll, wait=30)
        orders = older.result(timeout=15)
        assert (orders.assignment, orders.close) == (None, False)
        assert not newer.done()
        assert not foreign.done()
        statement_id = node.submit(session=session_id)["id"]
        assignment = newer.result(timeout=15).assignment
        assert assignment is not None
        assert assignment.statement_id == statement_id
        other.poll()
        foreign.result(timeout=15)


def test_a_driver_has_a_bounded_number_of_calls_in_flight(node: InProcessNode) -> None:
    _session_id, driver = node.start_session()
    _other_session, other = node.start_session()
    with ExitStack() as stack:
        for _ in range(31):
            stack.enter_context(begin_report(driver))

        def refuses_renewal() -> bool:
            # A renewal may take the last place, and the report is then the refused call.
            stack.enter_context(begin_report(driver))
            return renew(driver).status_code == 503

        wait_until(refuses_renewal, what="the node refuses a call")
        assert renew(driver).json()["code"] == "too_many_calls"
        assert other.renew().applied
        assert node.http.get("/ready").status_code == 200
    wait_until(lambda: renew(driver).status_code == 200, what="the node accepts calls again")
