"""The first driver of an embedded node, which starts before the store is open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode, make_settings
from tests.support.store import get_session
from tests.support.waiting import wait_until

from headrace.config.settings import Settings
from headrace.control.sessions.early_launch import EarlyLaunch, LocalParts, launch_early
from headrace.errors import Unauthorized
from headrace.model.lifecycle import SessionState

ADDRESS = "http://127.0.0.1:1"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program that takes the place of the driver's Python, and sleeps."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def early(tmp_path: Path, program: Path) -> Iterator[EarlyLaunch]:
    """Start a driver early; it is killed after the test."""
    settings = make_settings(tmp_path / "early", profiles={"default": {"python": str(program)}})
    early = start_early(settings)
    assert early is not None
    yield early
    early.kill()
    wait_until(early.parts.launcher.exits, what="the exit status of the driver")


def start_early(settings: Settings) -> EarlyLaunch | None:
    return launch_early(settings, LocalParts.create(settings, embedded=True), address=ADDRESS)


def is_running(early: EarlyLaunch) -> bool:
    try:
        return psutil.Process(early.handle["pid"]).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def submit(node: InProcessNode) -> str:
    """Submit a statement without a session, and return the id of its session."""
    response = node.http.post("/api/v1/statements", json={"statement": "SELECT 1"})
    assert response.status_code == 201
    return str(response.json()["session_id"])


@pytest.mark.finding("U4")
def test_a_statement_without_a_session_runs_in_the_driver_that_started_early(
    start_node: StartNode, early: EarlyLaunch
) -> None:
    node = start_node()
    node.node._launches.adopt_early(early, owner=LOCAL_OWNER)
    session = get_session(node.database, early.session.id)
    assert (session.state, session.epoch, session.pool) == (SessionState.STARTING, 1, True)
    assert session.handle == early.handle
    assert submit(node) == early.session.id
    assert node.launcher.started == [], "no other driver starts for the session"
    link = node.node.driver_link
    link.authenticate(early.lease, early.driver_secrets.token)
    with pytest.raises(Unauthorized):
        link.authenticate(early.lease, "another")
    assert is_running(early)


def test_an_early_driver_is_killed_if_its_owner_has_a_pool_session(
    start_node: StartNode, early: EarlyLaunch
) -> None:
    node = start_node()
    open_session = submit(node)
    folder = Path(early.handle["name"])
    node.node._launches.adopt_early(early, owner=LOCAL_OWNER)
    wait_until(lambda: not is_running(early), what="the end of the early driver")
    assert submit(node) == open_session
    drivers = early.parts.launcher._bootstraps.path(str(folder)).parent
    assert list(drivers.iterdir()) == []


def test_the_bootstrap_of_an_early_driver_is_complete(early: EarlyLaunch) -> None:
    bootstrap = early.parts.launcher._bootstraps.path(early.handle["name"]).read_text()
    assert f'"{early.driver_secrets.token}"' in bootstrap
    assert f'"nodes":["{ADDRESS}"]' in bootstrap
    assert f'"spark.headrace.session.id":"{early.session.id}"' in bootstrap


def test_an_early_driver_starts_fast_at_the_cost_of_its_later_speed(early: EarlyLaunch) -> None:
    process = psutil.Process(early.handle["pid"])
    # Until the program of the driver is loaded, the process has the environment of the tests.
    options = wait_until(
        lambda: process.environ().get("SPARK_SUBMIT_OPTS"), what="the process has its environment"
    )
    assert "-XX:Tier4InvocationThreshold" in options


def test_drivers_of_a_cluster_are_not_started_early(tmp_path: Path) -> None:
    profile = {"backend": "spark-submit", "master": "spark://127.0.0.1:1"}
    settings = make_settings(tmp_path, profiles={"default": profile})
    assert (
        launch_early(settings, LocalParts.create(settings, embedded=True), address=ADDRESS) is None
    )


def test_a_driver_that_cannot_start_early_is_left_to_the_first_statement(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = {"default": {"python": str(tmp_path / "missing")}}
    settings = make_settings(tmp_path / "home", profiles=missing)
    assert (
        launch_early(settings, LocalParts.create(settings, embedded=True), address=ADDRESS) is None
    )
    assert "the first driver could not be started early" in caplog.text


def test_an_early_driver_is_killed_if_its_session_would_exceed_a_limit(
    start_node: StartNode, early: EarlyLaunch
) -> None:
    node = start_node(limits={"sessions_per_user": 1})
    node.session(name="mine")
    node.node._launches.adopt_early(early, owner=LOCAL_OWNER)
    wait_until(lambda: not is_running(early), what="the end of the early driver")


def test_a_signal_before_there_is_a_node_ends_the_early_driver(
    tmp_path: Path, program: Path
) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")},
        "HEADRACE_HOME": str(tmp_path / "home"),
        "HEADRACE_CATALOG__KIND": "memory",
        "HEADRACE_PROFILES": json.dumps({"default": {"python": str(program)}}),
    }
    command = [sys.executable, "-P", "-m", "headrace.frontends", "--embedded", "--port", "0"]
    with subprocess.Popen([*command, "--open-pool"], env=environment) as node:
        # The driver never starts a JVM, for which the node waits before it does anything else.
        [driver] = wait_until(psutil.Process(node.pid).children, what="the early driver")
        node.terminate()
        assert node.wait(30) == 0
        wait_until(lambda: not driver.is_running(), what="the end of the early driver")
