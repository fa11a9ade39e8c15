"""The local launcher, with small Python programs in the place of drivers."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.waiting import wait_until

from headrace.control.launchers.contract import Handle, LaunchRequest
from headrace.control.launchers.local import LocalLauncher
from headrace.errors import LaunchFailed
from headrace.model.messages import Bootstrap
from headrace.settings import Profile


@pytest.fixture
def launcher(tmp_path: Path) -> LocalLauncher:
    return LocalLauncher(tmp_path)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter whose only program writes its environment and waits in a child as well."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, subprocess, sys, time\n"
        "print(sorted(os.environ), flush=True)\n"
        "if 'FAIL' in os.environ: sys.exit(3)\n"
        "subprocess.Popen(['sleep', '600'])\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    program.chmod(0o700)
    return program


@pytest.fixture
def handles(launcher: LocalLauncher) -> Iterator[list[Handle]]:
    """What a test has started; killed at its end."""
    started: list[Handle] = []
    yield started
    for handle in started:
        launcher.kill(handle)
        wait_until(lambda one=handle: not launcher.poll(one).alive, what="it is gone")
    launcher.exits()


def at_work(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that can still do anything."""
    left = [one for one in processes if one.is_running()]
    return [one for one in left if one.status() != psutil.STATUS_ZOMBIE]


def request(tmp_path: Path, python: Path, **env: str) -> LaunchRequest:
    bootstrap = Bootstrap(
        session_id="se_1",
        epoch=1,
        token="secret",
        nodes=["http://127.0.0.1:1"],
        conf={},
        results=str(tmp_path),
        inline_limit=1,
        chunk_limit=1,
        lease_seconds=1,
        renew_seconds=1,
        orphan_seconds=1,
    )
    return LaunchRequest(
        name="headrace-se_1-1",
        bootstrap=bootstrap,
        profile=Profile(python=str(python), env=env),
        log=tmp_path / "logs" / "se_1.log",
    )


def test_a_driver_is_started_and_killed_with_all_it_started(
    launcher: LocalLauncher, tmp_path: Path, python: Path, handles: list[Handle]
) -> None:
    asked = request(tmp_path, python)
    handles.append(launcher.start(asked))
    wait_until(lambda: "ready" in asked.log.read_text(), what="the driver is up")
    driver = psutil.Process(handles[0]["pid"])
    family = [driver, *driver.children(recursive=True)]
    assert len(family) == 2
    assert launcher.poll(handles[0]).alive
    assert launcher.exits() == []
    launcher.kill(handles[0])
    # At once: who kills goes on to what the driver must not touch any more.
    assert not at_work(family)
    assert not launcher.poll(handles[0]).alive
    launcher.kill(handles[0])
    assert not Path(handles[0]["bootstrap"]).exists()


def test_what_a_dead_driver_left_running_is_killed(
    launcher: LocalLauncher, tmp_path: Path, python: Path, handles: list[Handle]
) -> None:
    """A JVM outlives its Python process for a while, and may write."""
    asked = request(tmp_path, python)
    handles.append(launcher.start(asked))
    wait_until(lambda: "ready" in asked.log.read_text(), what="the driver is up")
    driver = psutil.Process(handles[0]["pid"])
    [child] = driver.children()
    driver.kill()
    wait_until(lambda: not launcher.poll(handles[0]).alive, what="the driver is gone")
    assert at_work([child])
    launcher.kill(handles[0])
    assert not at_work([child])


def test_only_the_owner_may_read_the_bootstrap_file(
    launcher: LocalLauncher, tmp_path: Path, python: Path, handles: list[Handle]
) -> None:
    handles.append(launcher.start(request(tmp_path, python)))
    file = Path(handles[0]["bootstrap"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Bootstrap.model_validate_json(file.read_text()).token == "secret"


def test_the_nodes_own_settings_do_not_reach_the_driver(
    launcher: LocalLauncher,
    tmp_path: Path,
    python: Path,
    handles: list[Handle],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_STORE__URL", "postgresql://user:password@host/db")
    asked = request(tmp_path, python, SEEN="yes")
    handles.append(launcher.start(asked))
    wait_until(lambda: "ready" in asked.log.read_text(), what="the driver is up")
    names = asked.log.read_text()
    assert "'SEEN'" in names
    assert "'JAVA_HOME'" in names
    assert "HEADRACE_" not in names


def test_an_exit_is_seen_once_and_told_in_words(
    launcher: LocalLauncher, tmp_path: Path, python: Path, handles: list[Handle]
) -> None:
    handles.append(launcher.start(request(tmp_path, python, FAIL="1")))
    [ended] = wait_until(launcher.exits, what="the exit is seen")
    assert (ended.session_id, ended.epoch, ended.reason) == ("se_1", 1, "exit status 3")
    assert launcher.exits() == []
    assert not launcher.poll(handles[0]).alive


def test_another_launcher_finds_what_this_one_started(
    launcher: LocalLauncher, tmp_path: Path, python: Path, handles: list[Handle]
) -> None:
    handles.append(launcher.start(request(tmp_path, python)))
    another = LocalLauncher(tmp_path)
    assert another.poll(handles[0]).alive
    assert not another.poll({**handles[0], "created": 1.0}).alive, (
        "the pid was given to another process"
    )
    another.kill(handles[0])
    wait_until(lambda: not launcher.poll(handles[0]).alive, what="it is gone")


def test_what_cannot_be_started_says_so(launcher: LocalLauncher, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="no-such-python"):
        launcher.start(request(tmp_path, tmp_path / "no-such-python"))
    assert not list((tmp_path / "drivers").glob("*.json"))


def test_a_new_address_is_announced(
    launcher: LocalLauncher, tmp_path: Path, python: Path, handles: list[Handle]
) -> None:
    handles.append(launcher.start(request(tmp_path, python)))
    launcher.announce(["http://127.0.0.1:2"])
    known = Bootstrap.model_validate_json(Path(handles[0]["bootstrap"]).read_text())
    assert known.nodes == ["http://127.0.0.1:2"]


def test_a_driver_is_found_by_its_name(
    launcher: LocalLauncher, tmp_path: Path, python: Path, handles: list[Handle]
) -> None:
    asked = request(tmp_path, python)
    assert launcher.find(asked.name, asked.profile) is None
    handles.append(launcher.start(asked))
    found = wait_until(lambda: launcher.find(asked.name, asked.profile), what="it is found")
    assert found == handles[0]
    assert launcher.find("headrace-se_1-2", asked.profile) is None
