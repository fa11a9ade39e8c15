"""A driver that dies while it starts is a failed start, whatever else died with it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.scripted_driver import ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.config.settings import Settings
from headrace.control.launchers.base import DriverStatus, Handle
from headrace.control.launchers.process_group import HOST_RESTARTED
from headrace.control.sessions import start_checks
from headrace.errors import DriverOnOtherHost
from headrace.model.session import Snapshot
from headrace.store.database import Tx
from headrace.store.sessions import sessions, takeovers

_LEASE = {"renew": "200ms", "sweep": "50ms"}
_SNAPSHOT = Snapshot(catalog="spark_catalog", namespace=["d"], conf={"my.k": "7"})


class OtherHostLauncher(ScriptedLauncher):
    """A launcher that cannot see the drivers, because they are processes of another host."""

    def poll(self, handle: Handle) -> DriverStatus:
        super().poll(handle)
        raise DriverOnOtherHost("The driver is a process of another host.")


def begin_start(node: InProcessNode, *, rebuilt: bool) -> tuple[str, str, int]:
    """Submit a query whose driver starts; return session, query and the number of its launch.

    Args:
        rebuilt: Whether the start replaces a lost driver of a session with a state.
    """
    if not rebuilt:
        query = node.submit()
        node.launcher.wait_for_request(query["session_id"])
        return query["session_id"], query["id"], 1
    session_id, driver = node.start_session()
    command = node.submit("SET my.k=7", session=session_id)["id"]
    driver.claim()
    driver.succeed(command, snapshot=_SNAPSHOT)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    query = node.submit(session=session_id)
    node.launcher.wait_for_request(session_id, launch=2)
    return session_id, query["id"], 2


def wait_for_handle(node: InProcessNode, session_id: str) -> None:
    names = lambda: [handle["name"].split("-")[1] for handle in node.launcher.started]  # noqa: E731
    wait_until(lambda: names()[-1:] == [session_id], what="the start returns")

    def is_stored() -> bool:
        with node.database.read() as tx:
            session = sessions.get(tx, session_id)
        return session is not None and session.handle is not None

    wait_until(is_stored, what="the handle is stored")


def check_next_start(node: InProcessNode, session_id: str, query: str, launch: int) -> None:
    """Check that the next start gets the query and the state of the session."""
    driver = node.launcher.connect_driver(session_id, launch=launch + 1)
    assert driver.restore().snapshot == (_SNAPSHOT if launch > 1 else None)
    assert driver.hello().applied
    assert driver.claim().statement_id == query
    driver.succeed(query)
    assert node.statement(query)["state"] == "success"


@pytest.mark.parametrize("rebuilt", [False, True], ids=["first start", "start after a loss"])
def test_a_start_that_died_with_its_node_is_repeated_when_the_node_returns(
    tmp_path: Path, rebuilt: bool
) -> None:
    settings = make_settings(tmp_path / "home", lease={"sweep": "50ms"})
    launcher = ScriptedLauncher()
    with serve_node(settings, launcher) as node:
        session_id, query, launch = begin_start(node, rebuilt=rebuilt)
        wait_for_handle(node, session_id)
    launcher.end_silently(session_id)
    with serve_node(settings, launcher) as node:
        check_next_start(node, session_id, query, launch)


def test_a_start_that_died_with_its_node_is_repeated_by_another_node(
    tmp_path: Path, postgres_url: str
) -> None:
    def settings(name: str) -> Settings:
        return make_settings(tmp_path / name, store={"url": postgres_url}, lease=_LEASE)

    launcher = ScriptedLauncher()
    with serve_node(settings("two"), launcher) as other:
        # The other node starts nothing, until the first one has launched the driver and is gone.
        other.node._launches._is_draining = lambda: True
        with serve_node(settings("one"), launcher) as node:
            session_id, query, launch = begin_start(node, rebuilt=False)
            wait_for_handle(node, session_id)
        launcher.end_silently(session_id)
        other.node._launches._is_draining = lambda: False
        check_next_start(other, session_id, query, launch)


def test_a_start_that_outlives_its_node_is_kept(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "home", lease={"sweep": "50ms"})
    launcher = ScriptedLauncher()
    with serve_node(settings, launcher) as node:
        session_id, query, _launch = begin_start(node, rebuilt=False)
        wait_for_handle(node, session_id)
        asked = len(launcher.question_times)
    with serve_node(settings, launcher) as node:
        wait_until(lambda: len(launcher.question_times) > asked, what="the node asks")
        driver = launcher.connect_driver(session_id)
        driver.move_to(node.address)
        assert driver.hello().applied
        assert driver.claim().statement_id == query
        # One question is enough: the node observes the process from then on.
        assert len(launcher.question_times) == asked + 1
    assert len(launcher.started) == 1


def test_a_session_fails_after_three_starts_that_died_unobserved(
    tmp_path: Path,
) -> None:
    settings = make_settings(tmp_path / "home", lease={"sweep": "50ms"})
    launcher = ScriptedLauncher()
    with serve_node(settings, launcher) as node:
        session_id, _query, _launch = begin_start(node, rebuilt=False)
        wait_for_handle(node, session_id)
    for launch in (2, 3):
        launcher.end_silently(session_id)
        with serve_node(settings, launcher) as node:
            launcher.wait_for_request(session_id, launch=launch)
            wait_for_handle(node, session_id)
    launcher.end_silently(session_id)
    with serve_node(settings, launcher) as node:
        wait_until(lambda: node.session_state(session_id) == "failed")
        error = node.describe_session(session_id)["error"]
    assert error["code"] == "launch_failed"
    assert "did not start in 3 attempts" in error["message"]


def test_a_start_that_died_before_its_timeout_is_repeated(start_node: StartNode) -> None:
    node = start_node(lease=_LEASE)
    session_id, query, launch = begin_start(node, rebuilt=False)
    wait_for_handle(node, session_id)
    node.launcher.end_silently(session_id)
    node.expire_lease(session_id)
    check_next_start(node, session_id, query, launch)


def test_a_slow_start_on_a_cluster_is_asked_about_before_its_timeout(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_checks, "_SLOW_START_SECONDS", 0.2)
    # The time of the process passes when the test says so, but not that of the store.
    now, looks = [0.0], list[str]()
    monkeypatch.setattr(start_checks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    find_starts = takeovers.unobserved_starts

    def look(tx: Tx, node_id: str, *arguments: Any, **options: Any) -> Any:
        looks.append(node_id)
        return find_starts(tx, node_id, *arguments, **options)

    monkeypatch.setattr(takeovers, "unobserved_starts", look)
    node = start_node(lease={"sweep": "50ms"})
    session_id, query, launch = begin_start(node, rebuilt=False)
    times = node.launcher.question_times
    wait_until(lambda: times, what="the node asks")
    count = looks.count(node.node.id)
    wait_until(lambda: looks.count(node.node.id) > count + 3, what="the node looks again")
    assert len(times) == 1
    now[0] += 0.3
    wait_until(lambda: len(times) == 2, what="the node asks again")
    node.launcher.end_silently(session_id)
    now[0] += 0.3
    check_next_start(node, session_id, query, launch)


def test_a_node_leaves_starts_on_other_hosts_to_the_nodes_there(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "home", lease={"sweep": "20ms"})
    launcher = OtherHostLauncher()
    with serve_node(settings, launcher) as node:
        session_id, _query, _launch = begin_start(node, rebuilt=False)
        wait_for_handle(node, session_id)
    with serve_node(settings, launcher) as node:
        wait_until(lambda: launcher.question_times, what="the node asks")
        for _number in range(3):
            node.node._start_checks.run()
        assert node.session_state(session_id) == "starting"
    assert len(launcher.question_times) == 1


def test_a_start_that_ended_with_its_host_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(tmp_path / "home", lease={"sweep": "50ms"})
    launcher = ScriptedLauncher()
    with serve_node(settings, launcher) as node:
        session_id, query, launch = begin_start(node, rebuilt=False)
        wait_for_handle(node, session_id)
    monkeypatch.setattr(launcher, "poll", lambda _handle: HOST_RESTARTED)
    with serve_node(settings, launcher) as node:
        check_next_start(node, session_id, query, launch)
