"""A launcher whose drivers serve by themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher

from headrace.control.launchers.base import Handle, LaunchRequest
from headrace.model.messages import Assignment


class AutoReplyLauncher(ScriptedLauncher):
    """A launcher whose drivers serve by themselves.

    `reply` returns the arguments of `ScriptedDriver.report_end` for each statement.
    """

    def __init__(self, reply: Callable[[Assignment], dict[str, Any]]) -> None:
        super().__init__()
        self._reply = reply
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, request: LaunchRequest) -> Handle:
        handle = super().start(request)
        thread = threading.Thread(target=self._serve, args=(request,), daemon=True)
        thread.start()
        self._threads.append(thread)
        return handle

    def close(self) -> None:
        """Wait for the end of all drivers. The node must have answered their polls before."""
        super().close()
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _serve(self, request: LaunchRequest) -> None:
        with self._make_driver(request) as driver:
            try:
                self._loop(driver)
            except (httpx.TransportError, httpx.HTTPStatusError):
                # The node has stopped, or another driver serves this session.
                return

    def _loop(self, driver: ScriptedDriver) -> None:
        driver.hello()
        while not self._stopping.is_set():
            orders = driver.poll(wait=10)
            if orders.close:
                driver.goodbye()
                return
            if orders.assignment is not None:
                driver.report_start(orders.assignment.statement_id)
                driver.report_end(orders.assignment.statement_id, **self._reply(orders.assignment))
