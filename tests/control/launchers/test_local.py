"""What is the local launcher's own; test_contract.py holds what it shares with the others."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from tests.support.launches import READY, program, request, standing_by
from tests.support.waiting import wait_until

from headrace.control.launchers.base import Handle
from headrace.control.launchers.local import LocalLauncher
from headrace.errors import LaunchFailed
from headrace.model.messages import Bootstrap
from headrace.settings import Profile


@pytest.fixture
def launcher(tmp_path: Path) -> LocalLauncher:
    return LocalLauncher(tmp_path)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Its driver waits, in a child as well."""
    return Profile(python=standing_by(tmp_path / "python"))


def at_work(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that can still do anything."""
    left = [one for one in processes if one.is_running()]
    return [one for one in left if one.status() != psutil.STATUS_ZOMBIE]


def test_a_driver_is_killed_with_all_it_started(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    asked = request(tmp_path, profile)
    handles.append(launcher.start(asked))
    wait_until(lambda: READY in asked.log.read_text(), what="the driver is up")
    driver = psutil.Process(handles[0]["pid"])
    family = [driver, *driver.children(recursive=True)]
    assert len(family) == 2
    launcher.kill(handles[0])
    # At once: who kills goes on to what the driver must not touch any more.
    assert not at_work(family)
    assert not Path(handles[0]["bootstrap"]).exists()


def test_what_a_dead_driver_left_running_is_killed(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    """A JVM outlives its Python process for a while, and may write."""
    asked = request(tmp_path, profile)
    handles.append(launcher.start(asked))
    wait_until(lambda: READY in asked.log.read_text(), what="the driver is up")
    driver = psutil.Process(handles[0]["pid"])
    [child] = driver.children()
    driver.kill()
    wait_until(lambda: not launcher.poll(handles[0]).alive, what="the driver is gone")
    assert at_work([child])
    launcher.kill(handles[0])
    assert not at_work([child])


def test_the_nodes_own_settings_do_not_reach_the_driver(
    launcher: LocalLauncher,
    tmp_path: Path,
    handles: list[Handle],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_STORE__URL", "postgresql://user:password@host/db")
    python = program(tmp_path / "python", "print(sorted(os.environ), 'end')")
    asked = request(tmp_path, Profile(python=python, env={"SEEN": "yes"}))
    handles.append(launcher.start(asked))
    wait_until(lambda: "end" in asked.log.read_text(), what="the driver has written")
    names = asked.log.read_text()
    assert "'SEEN'" in names
    assert "'JAVA_HOME'" in names
    assert "HEADRACE_" not in names


def test_a_pid_that_was_given_to_another_process_is_no_driver(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    handles.append(launcher.start(request(tmp_path, profile)))
    another = LocalLauncher(tmp_path)
    assert another.poll(handles[0]).alive
    reused = {**handles[0], "created": 1.0}
    assert not another.poll(reused).alive
    another.kill(reused)
    assert another.poll(handles[0]).alive


def test_what_cannot_be_started_says_so(launcher: LocalLauncher, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="no-such-python"):
        launcher.start(request(tmp_path, Profile(python=str(tmp_path / "no-such-python"))))
    assert not list((tmp_path / "drivers").glob("*.json"))


def test_a_new_address_is_announced(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    handles.append(launcher.start(request(tmp_path, profile)))
    launcher.announce(["http://127.0.0.1:2"])
    known = Bootstrap.model_validate_json(Path(handles[0]["bootstrap"]).read_text())
    assert known.nodes == ["http://127.0.0.1:2"]
