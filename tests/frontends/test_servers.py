"""The servers of a process: their order, and their end."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from headrace.control.long_polls import LongPolls
from headrace.frontends.servers import Server, Servers


class _Node:
    """What `Servers` uses of a node."""

    def __init__(self) -> None:
        self.long_polls = LongPolls(hears_wake_ups=lambda: True)
        self.withdrawals = 0

    def withdraw(self) -> None:
        self.withdrawals += 1


class _Server(Server):
    """Records its start and its end."""

    def __init__(self, name: str, log: list[str], *, fails: bool = False) -> None:
        self._name, self._log, self._fails = name, log, fails

    async def start(self) -> None:
        if self._fails:
            raise OSError("the port is in use")
        self._log.append(f"start {self._name}")

    async def stop(self) -> None:
        self._log.append(f"stop {self._name}")

    def hurry(self) -> None:
        self._log.append(f"hurry {self._name}")


def _servers(node: Any, *servers: Server) -> Servers:
    return Servers(node, servers)


def test_servers_stop_in_the_reverse_order_of_their_start() -> None:
    node, log = _Node(), list[str]()
    servers = _servers(node, _Server("a", log), _Server("b", log))
    thread = threading.Thread(target=servers.run)
    thread.start()
    assert servers.started.wait(60)
    assert log == ["start a", "start b"]

    servers.request_stop()

    thread.join(60)
    assert log == ["start a", "start b", "stop b", "stop a"]
    assert (node.withdrawals, node.long_polls.stopping) == (1, True)


def test_a_server_that_cannot_start_ends_the_process_after_those_before_it_have_stopped() -> None:
    log: list[str] = []
    servers = _servers(_Node(), _Server("a", log), _Server("b", log, fails=True))
    with pytest.raises(OSError, match="in use"):
        servers.run()
    assert log == ["start a", "stop a"]


def test_a_stop_that_is_requested_before_the_start_is_not_lost() -> None:
    log: list[str] = []
    servers = _servers(_Node(), _Server("a", log))
    servers.request_stop()
    servers.run()
    servers.request_stop()
    assert log == ["start a", "stop a"]


def test_all_servers_hurry() -> None:
    log: list[str] = []
    _servers(_Node(), _Server("a", log), _Server("b", log)).hurry()
    assert log == ["hurry a", "hurry b"]


def test_the_process_imports_node_and_servers_after_it_has_started_the_first_driver() -> None:
    code = "import sys, headrace.frontends.process; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"headrace.control.node", "headrace.frontends.app", "fastapi"}.isdisjoint(loaded)
