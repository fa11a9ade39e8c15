"""Takeovers of many overdue drivers, on backends that answer and that do not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.support.in_process_node import make_settings
from tests.support.scripted_driver import ScriptedLauncher
from tests.support.store import get_session, register_node, running_session
from tests.support.waiting import wait_until

from headrace.control.context import NodeContext
from headrace.control.launchers.base import DriverStatus, Handle
from headrace.control.launchers.registry import LauncherRegistry
from headrace.control.sessions import takeover
from headrace.control.sessions.takeover import Takeovers
from headrace.model.lifecycle import SessionState
from headrace.store.database import Database
from headrace.store.sessions import sessions


class HangingLauncher(ScriptedLauncher):
    """A launcher whose backend does not answer before `answers` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()

    def poll(self, handle: Handle) -> DriverStatus:
        assert self.answers.wait(30)
        return super().poll(handle)


def test_a_backend_that_does_not_answer_delays_no_takeover_on_another_backend(
    store: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "_BATCH", 4)
    hanging, other = HangingLauncher(), ScriptedLauncher("spark-submit")
    registry = LauncherRegistry([hanging, other], CollectorRegistry())
    settings = make_settings(tmp_path, lease={"duration": "60s"})
    node = Takeovers(NodeContext(store, settings, "no_1", "http://node"), registry)
    register_node(store, "no_1")
    leases = [running_session(store, lease_seconds=-1) for _ in range(7)]
    with store.write("test") as tx:
        for lease in leases:
            backend = "spark-submit" if lease == leases[-1] else "local"
            sessions.set_handle(tx, lease, {"backend": backend, "name": lease.session_id})
    try:
        for _sweep in range(3):
            node.run()
        wait_until(
            lambda: get_session(store, leases[-1].session_id).state is SessionState.RECOVERING,
            what="the takeover on the other backend",
        )
        states = {get_session(store, lease.session_id).state for lease in leases[:-1]}
        assert states == {SessionState.RUNNING}
    finally:
        hanging.answers.set()
        node.stop()
