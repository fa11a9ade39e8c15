"""Tests of the launcher `local` beyond the contract suite, test_launcher_contract.py."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from tests.support.launches import (
    READY,
    make_request,
    write_interpreter,
    write_waiting_interpreter,
)
from tests.support.waiting import wait_until

from headrace.control.launchers.base import Handle
from headrace.control.launchers.local import LocalLauncher
from headrace.errors import LaunchFailed
from headrace.home import HomeLayout
from headrace.model.messages import Bootstrap
from headrace.settings import Profile


@pytest.fixture
def launcher(tmp_path: Path) -> LocalLauncher:
    return LocalLauncher(HomeLayout.at(tmp_path))


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Profile whose driver waits, and has a child that waits."""
    return Profile(python=write_waiting_interpreter(tmp_path / "python"))


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that can still act."""
    existing = [process for process in processes if process.is_running()]
    return [process for process in existing if process.status() != psutil.STATUS_ZOMBIE]


def test_a_kill_ends_the_driver_and_all_processes_that_it_started(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    request = make_request(tmp_path, profile)
    handles.append(launcher.start(request))
    wait_until(lambda: READY in request.log.read_text(), what="the driver runs")
    driver = psutil.Process(handles[0]["pid"])
    processes = [driver, *driver.children(recursive=True)]
    assert len(processes) == 2
    launcher.kill(handles[0])
    # Without a wait: after `kill`, a takeover touches the files that the driver had.
    assert not running(processes)
    assert not Path(handles[0]["bootstrap"]).exists()


def test_a_kill_ends_the_processes_of_a_driver_that_has_already_ended(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    """A JVM can outlive its Python process, and write files in that time."""
    request = make_request(tmp_path, profile)
    handles.append(launcher.start(request))
    wait_until(lambda: READY in request.log.read_text(), what="the driver runs")
    driver = psutil.Process(handles[0]["pid"])
    [child] = driver.children()
    driver.kill()
    wait_until(lambda: not launcher.poll(handles[0]).alive, what="the driver ends")
    assert running([child])
    launcher.kill(handles[0])
    assert not running([child])


def test_a_driver_does_not_inherit_the_settings_of_the_node(
    launcher: LocalLauncher,
    tmp_path: Path,
    handles: list[Handle],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_STORE__URL", "postgresql://user:password@host/db")
    python = write_interpreter(tmp_path / "python", "print(sorted(os.environ), 'end')")
    request = make_request(tmp_path, Profile(python=python, env={"FROM_PROFILE": "yes"}))
    handles.append(launcher.start(request))
    wait_until(lambda: "end" in request.log.read_text(), what="the driver writes its log")
    names = request.log.read_text()
    assert "'FROM_PROFILE'" in names
    assert "'JAVA_HOME'" in names
    assert "HEADRACE_" not in names


def test_another_process_with_the_pid_of_a_driver_is_not_taken_for_the_driver(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    handles.append(launcher.start(make_request(tmp_path, profile)))
    other_node = LocalLauncher(HomeLayout.at(tmp_path))
    assert other_node.poll(handles[0]).alive
    reused_pid = {**handles[0], "created": 1.0}
    assert not other_node.poll(reused_pid).alive
    other_node.kill(reused_pid)
    assert other_node.poll(handles[0]).alive


def test_a_missing_interpreter_is_reported_and_leaves_no_bootstrap_file(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    with pytest.raises(LaunchFailed, match="no-such-python"):
        launcher.start(make_request(tmp_path, Profile(python=str(tmp_path / "no-such-python"))))
    assert not list((tmp_path / "drivers").glob("*.json"))


def test_new_node_addresses_are_written_to_the_bootstrap_files(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    handles.append(launcher.start(make_request(tmp_path, profile)))
    launcher.announce(["http://127.0.0.1:2"])
    bootstrap = Bootstrap.model_validate_json(Path(handles[0]["bootstrap"]).read_text())
    assert bootstrap.nodes == ["http://127.0.0.1:2"]
