"""The start and the end of a node, with the drivers that it has launched."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process_node import make_settings, serve_node
from tests.support.scripted_driver import ScriptedLauncher

from headrace.config.settings import Settings
from headrace.control.node import Node
from headrace.errors import StoreUnavailable
from headrace.store import nodes


def _make_shared_settings(home: Path, store: str, profile: str) -> Settings:
    """Return the settings of a node on a PostgreSQL store with a profile that no other node has."""
    profiles: dict[str, Any] = {profile: {"master": "local[2]"}}
    return make_settings(
        home, store={"url": store}, lease={"sweep": "50ms"}, profiles=profiles, embedded={"warm": 0}
    )


@pytest.mark.parametrize("embedded", [False, True], ids=["server", "embedded"])
def test_a_node_that_ends_its_drivers_keeps_those_of_the_other_nodes_of_its_store(
    tmp_path: Path, postgres_url: str, embedded: bool
) -> None:
    with serve_node(_make_shared_settings(tmp_path / "b", postgres_url, "b")) as other:
        unnamed, driver = other.start_session(profile="b")
        named, _ = other.start_session(profile="b", name="mine")
        statement = other.submit(session=unnamed)["id"]
        driver.claim()
        with serve_node(
            _make_shared_settings(tmp_path / "a", postgres_url, "a"), embedded=embedded
        ) as node:
            own, _ = node.start_session(profile="a")
            node.node.ends_drivers = True
        assert len(node.launcher.killed) == 1
        assert other.session_state(own) == "dead"
        assert other.launcher.killed == []
        assert [other.session_state(each) for each in (unnamed, named)] == ["running", "running"]
        assert driver.succeed(statement).applied


def test_an_embedded_node_with_running_statements_ends_its_drivers_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server has stopped before, so that no driver can learn that its session is closed."""
    monkeypatch.setattr("headrace.control.sessions.takeover._CLOSE_SECONDS", 200.0)
    with serve_node(make_settings(tmp_path), embedded=True) as embedded:
        unnamed, first = embedded.start_session()
        named, second = embedded.start_session(name="mine")
        for session, driver in ((unnamed, first), (named, second)):
            statement = embedded.submit(session=session)["id"]
            driver.claim()
            driver.report_start(statement)
        began_at = time.monotonic()
    assert time.monotonic() - began_at < 100
    assert len(embedded.launcher.killed) == 2
    with serve_node(make_settings(tmp_path, lease={"sweep": "1h"})) as node:
        assert node.session_state(unnamed) == "dead"
        assert node.describe_session(named)["state"] == "recovering"


def test_a_node_that_cannot_start_ends_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_values: object, **_options: object) -> int:
        raise StoreUnavailable("The store does not answer.")

    launchers = [ScriptedLauncher()]
    settings = make_settings(tmp_path)
    node = Node(settings, address="http://node.invalid", embedded=False, launchers=launchers)
    monkeypatch.setattr(nodes, "register", refuse)
    with pytest.raises(StoreUnavailable):
        _run_and_stop(node)


def _run_and_stop(node: Node) -> None:
    """Start a node and stop it, also if the start fails, as a server does."""
    try:
        node.start(request_stop=lambda: None)
    finally:
        node.stop()
