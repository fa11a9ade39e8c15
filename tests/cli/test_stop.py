"""`headrace stop --drivers` ends all that the home and its host run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest
from tests.cli.conftest import COMMAND, CompletedCommand
from tests.support.in_process_node import make_settings
from tests.support.made_results import inline_result
from tests.support.node import NodeProcess
from tests.support.processes import end, processes_of
from tests.support.small_driver import write_small_driver
from tests.support.store import running_session
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout
from headrace.control import host_shutdown
from headrace.control.host.home_processes import HomeProcess, find_home_processes
from headrace.control.launchers.process_group import ProcessGroup
from headrace.control.sessions import takeover
from headrace.errors import LaunchFailed
from headrace.files.file_locks import lock_file
from headrace.store.database import Database
from headrace.store.sessions import sessions

_SESSION = f"se_{'0' * 32}"
_SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
_UNKILLABLE = """
from headrace.control.launchers import process_group
from headrace.errors import LaunchFailed

def refuse(_group):
    raise LaunchFailed("It does not end.")

process_group.kill = refuse
"""
StartNodeProcess = Callable[..., NodeProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartNodeProcess]:
    """Return a function that starts `headrace serve` with drivers without Spark in a home."""
    driver = write_small_driver(
        tmp_path / "driver", inline_result([("x", "integer")], [[1]]).model_dump_json()
    )
    nodes = []

    def start(name: str = "home", **settings: str) -> NodeProcess:
        profiles = json.dumps({"default": {"python": str(driver)}})
        memory = {"CATALOG__KIND": "memory"}
        nodes.append(NodeProcess(tmp_path / name, PROFILES=profiles, **{**memory, **settings}))
        return nodes[-1]

    yield start
    for node in nodes:
        node.http.close()
        end(processes_of(node.home))
        node.process.wait()


def run_in(home: Path, *arguments: str, **variables: str) -> CompletedCommand:
    environment = {**os.environ, "HEADRACE_HOME": str(home), "HEADRACE_SERVER": "embedded"}
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def start_driver(node: NodeProcess, **fields: str) -> tuple[str, int]:
    """Return a running session and the process id of its driver."""
    session_id = node.session(**fields)
    node.wait_running(session_id)
    return session_id, node.describe_session(session_id)["driver"]["pid"]


@contextmanager
def used_metastore(home: Path) -> Iterator[None]:
    """Hold the lock of the users of a metastore: without users, one that is new ends after 10 s."""
    descriptor = lock_file(HomeLayout.at(home).metastore / "users.lock", shared=True, timeout=60)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


def test_what_a_killed_node_ran_is_named_and_ended(start: StartNodeProcess) -> None:
    node = start(CATALOG__KIND="managed", EMBEDDED__LINGER="10m")
    named, _pid = start_driver(node, name="etl")
    unnamed, pid = start_driver(node)
    # The node has used the metastore until now, and drivers without Spark do not.
    with used_metastore(node.home):
        node.kill()

        status = run_in(node.home, "status").stdout
        assert f"driver process {pid} (session {unnamed})" in status
        assert "metastore process" in status
        plain = run_in(node.home, "stop")
        assert plain.returncode == 0
        assert f"driver process {pid} (session {unnamed})" in plain.stderr
        assert "headrace stop --drivers" in plain.stderr
        assert psutil.pid_exists(pid)

        stopped = run_in(node.home, "stop", "--drivers")
    assert stopped.returncode == 0, stopped.stderr
    assert f"driver process {pid} (session {unnamed})" in stopped.stderr
    assert "metastore process" in stopped.stderr
    assert processes_of(node.home) == set()
    assert list((node.home / "drivers").glob("*.json")) == []
    assert "runs" not in run_in(node.home, "status").stdout

    node.start()
    # The tables of these drivers ended with them, so that no other driver can restore the sessions.
    for each in (named, unnamed):
        wait_until(lambda id_=each: node.describe_session(id_)["state"] == "dead", what="its end")


def test_the_driver_of_a_drained_node_ends_with_the_drivers_of_the_host(
    start: StartNodeProcess, postgres_url: str
) -> None:
    store = {"STORE__URL": postgres_url, "HTTP__AUTH": "false"}
    first = start("one", **store)
    session_id, pid = start_driver(first)
    second = start("two", **store)
    first.stop()
    assert psutil.pid_exists(pid)

    stopped = run_in(second.home, "stop", "--drivers", HEADRACE_STORE__URL=postgres_url)
    assert stopped.returncode == 0, stopped.stderr
    assert f"driver process {pid} (session {session_id})" in stopped.stderr
    wait_until(lambda: not processes_of(first.home), what="the driver has ended")


def test_a_store_that_does_not_answer_is_named_and_the_drivers_end(
    start: StartNodeProcess,
) -> None:
    node = start()
    _session_id, pid = start_driver(node)
    node.kill()
    elsewhere = "postgresql://nobody@127.0.0.1:1/none"
    stopped = run_in(node.home, "stop", "--drivers", HEADRACE_STORE__URL=elsewhere)
    assert stopped.returncode == 1
    assert "The store could not be read" in stopped.stderr
    assert f"driver process {pid}" in stopped.stderr
    assert processes_of(node.home) == set()


@pytest.fixture
def stray_driver(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with the arguments of a driver that no store knows."""
    layout = HomeLayout.at(tmp_path)
    file = layout.drivers / f"headrace-{_SESSION}-1.json"
    file.parent.mkdir()
    file.touch()
    with subprocess.Popen([*_SLEEP, str(file)], start_new_session=True) as process:
        try:
            # The system shows the arguments of a process a moment after its start.
            wait_until(lambda: find_home_processes(layout), what="the driver is seen")
            yield process
        finally:
            process.kill()


def test_a_driver_that_no_store_knows_is_ended(
    tmp_path: Path, stray_driver: subprocess.Popen[bytes]
) -> None:
    report = host_shutdown.shut_down(make_settings(tmp_path))
    assert [process.pid for process in report.ended] == [stray_driver.pid]
    assert stray_driver.wait() == -signal.SIGKILL
    assert list((tmp_path / "drivers").iterdir()) == []


def test_a_process_that_does_not_end_is_named(
    tmp_path: Path, stray_driver: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_group: object) -> None:
        raise LaunchFailed("It does not end.")

    monkeypatch.setattr(host_shutdown.process_group, "kill", refuse)
    report = host_shutdown.shut_down(make_settings(tmp_path))
    assert [process.pid for process in report.remaining] == [stray_driver.pid]
    assert report.problems == [f"Process {stray_driver.pid} (driver): It does not end."]


def test_the_exit_code_says_that_a_process_has_not_ended(
    tmp_path: Path, stray_driver: subprocess.Popen[bytes]
) -> None:
    """Python imports `sitecustomize` when it starts the program that ends the processes."""
    folder = tmp_path / "changed"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_UNKILLABLE)
    stopped = run_in(tmp_path, "stop", "--drivers", PYTHONPATH=str(folder))

    driver = f"driver process {stray_driver.pid} (session {_SESSION})"
    assert stopped.returncode == 1
    assert f"Process {stray_driver.pid} (driver): It does not end." in stopped.stderr
    assert f"Not ended: {driver}." in stopped.stderr
    assert "Ended " not in stopped.stderr
    assert stray_driver.poll() is None

    stopped = run_in(tmp_path, "stop", "--drivers")
    assert (stopped.returncode, f"Ended {driver}." in stopped.stderr) == (0, True)


def test_a_driver_has_ended_although_its_backend_does_not_answer(
    tmp_path: Path, stray_driver: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "_CLOSE_SECONDS", 0.0)
    settings = make_settings(tmp_path, lease={"duration": "1s", "renew": "500ms"})
    with closing(Database.open(settings.store_url)) as store:
        store.migrate()
        driver = running_session(store)
        handle = {
            "backend": "spark-submit",
            "name": f"headrace-{driver.session_id}-{driver.epoch}",
            "master": "spark://127.0.0.1:1",
            "deploy_mode": "client",
            "cluster_url": "http://127.0.0.1:1",
            "namespace": "default",
            **ProcessGroup.of_leader(stray_driver.pid).to_record(),
        }
        with store.write("test") as tx:
            assert sessions.set_handle(tx, driver, handle)

    report = host_shutdown.shut_down(settings)
    assert stray_driver.wait() == -signal.SIGKILL
    assert report.remaining == []
    assert {process.pid for process in report.ended} == {stray_driver.pid}
    [problem] = report.problems
    assert "has not confirmed its end" in problem


def test_a_program_that_reads_a_file_of_a_driver_is_no_driver(
    tmp_path: Path, stray_driver: subprocess.Popen[bytes]
) -> None:
    layout = HomeLayout.at(tmp_path)
    name = f"headrace-{_SESSION}-1"
    with subprocess.Popen([*_SLEEP, str(layout.drivers / f"{name}.json")]) as reader:
        wait_until(psutil.Process(reader.pid).cmdline, what="the program is seen")
        driver = HomeProcess("driver", stray_driver.pid, name, _SESSION)
        assert find_home_processes(layout) == [driver]
        assert find_home_processes(HomeLayout.at(tmp_path / "other")) == []
        reader.kill()
