"""A node process that is frozen, as on a suspended laptop, and continues."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.launches import write_waiting_interpreter
from tests.support.node import NodeProcess
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout
from headrace.model.messages import Bootstrap

_LEASE_SECONDS = 3.0
_RENEWALS = re.compile(r'headrace_store_writes_total{transaction="node.renew"} (\S+)')


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """Start a node whose drivers are waiting programs; a test makes the calls of the drivers."""
    python = write_waiting_interpreter(tmp_path / "python")
    node = NodeProcess(
        tmp_path / "home",
        PROFILES=json.dumps({"default": {"python": python}}),
        CATALOG__KIND="memory",
        LEASE__DURATION=f"{_LEASE_SECONDS:g}s",
        LEASE__RENEW="500ms",
        LEASE__SWEEP="100ms",
    )
    yield node
    node.close()


def connect_driver(node: NodeProcess, session_id: str) -> ScriptedDriver:
    file = HomeLayout.at(node.home).drivers / f"headrace-{session_id}-1.json"
    wait_until(file.exists, what="the driver is launched")
    driver = ScriptedDriver(Bootstrap.model_validate_json(file.read_text()))
    driver.hello()
    return driver


def read_epoch(node: NodeProcess, session_id: str) -> int:
    return int(node.http.get(f"/api/v1/sessions/{session_id}").json()["epoch"])


def count_renewals(node: NodeProcess) -> float:
    match = _RENEWALS.search(node.http.get("/metrics").text)
    return float(match[1]) if match else 0.0


@pytest.mark.finding("B1")
def test_a_healthy_driver_keeps_its_session_when_the_node_was_frozen_for_longer_than_a_lease(
    node: NodeProcess,
) -> None:
    healthy, silent = node.session(), node.session()
    with connect_driver(node, silent), connect_driver(node, healthy) as driver:

        def silent_driver_is_lost() -> bool:
            driver.renew()
            return read_epoch(node, silent) > 1

        wait_until(silent_driver_is_lost, what="the node judges drivers")
        driver.renew()
        node.process.send_signal(signal.SIGSTOP)
        try:
            frozen_at = time.monotonic()
            wait_until(lambda: time.monotonic() > frozen_at + _LEASE_SECONDS + 0.5)
        finally:
            node.process.send_signal(signal.SIGCONT)
        renewals = count_renewals(node)
        wait_until(lambda: count_renewals(node) >= renewals + 2, what="the node works again")
        assert driver.renew().applied
        assert read_epoch(node, healthy) == 1
