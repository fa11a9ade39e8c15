"""Tests of the launcher `local` beyond the contract suite, test_launcher_contract.py."""

from __future__ import annotations

import ast
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.launches import (
    READY,
    make_host,
    make_request,
    write_failing_interpreter,
    write_interpreter,
    write_waiting_interpreter,
)
from tests.support.namespaces import run_on_other_host
from tests.support.waiting import wait_until

from headrace.config.extras import EXTRAS, install_command
from headrace.config.profiles import Profile
from headrace.control.launchers import bootstrap_files
from headrace.control.launchers.base import DriverExit, Handle, LaunchRequest
from headrace.control.launchers.local import LocalLauncher
from headrace.errors import DriverOnOtherHost, LaunchFailed, PackagesMissing
from headrace.model.messages import Bootstrap


@pytest.fixture
def launcher(tmp_path: Path) -> LocalLauncher:
    return LocalLauncher(make_host(tmp_path))


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """Profile whose driver waits, and has a child that waits."""
    return Profile(python=write_waiting_interpreter(tmp_path / "python"))


def bootstrap_file(folder: Path, request: LaunchRequest) -> Path:
    return folder / "drivers" / f"{request.name}.json"


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that can still act."""
    existing = [process for process in processes if process.is_running()]
    return [process for process in existing if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.finding("U19")
def test_a_driver_runs_in_the_folder_that_the_node_has_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    program = write_interpreter(tmp_path / "python", "print('runs in', os.getcwd(), flush=True)")
    request = make_request(tmp_path, Profile(python=program))
    launcher = LocalLauncher(make_host(tmp_path, folder))
    launcher.start(request)

    wait_until(launcher.exits, what="the driver has ended")
    assert request.log.read_text() == f"runs in {folder}\n"


def test_a_driver_without_pyspark_is_refused_with_the_extra_to_install(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "spark", ("no_such_package",))
    with pytest.raises(PackagesMissing) as caught:
        launcher.start(make_request(tmp_path, Profile()))

    assert caught.value.hint == install_command("spark")


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
    assert not bootstrap_file(tmp_path, request).exists()


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


@pytest.mark.finding("S11")
def test_a_driver_inherits_only_variables_from_the_allow_list(
    launcher: LocalLauncher,
    tmp_path: Path,
    handles: list[Handle],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HEADRACE_STORE__URL", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "MY_REGION"):
        monkeypatch.setenv(name, "the value in the node")
    for name in ("LC_ALL", "SPARK_CONF_DIR", "no_proxy", "TZ"):
        monkeypatch.setenv(name, "needed")
    python = write_interpreter(tmp_path / "python", "print(sorted(os.environ), 'end')")
    profile = Profile(python=python, env={"FROM_PROFILE": "yes"}, inherit_env=["MY_REGION"])
    request = make_request(tmp_path, profile)
    handles.append(launcher.start(request))
    wait_until(lambda: " end" in request.log.read_text(), what="the driver writes its log")
    names = set(ast.literal_eval(request.log.read_text().rpartition(" end")[0]))
    assert {"PATH", "JAVA_HOME", "LC_ALL", "SPARK_CONF_DIR", "no_proxy", "TZ"} <= names
    assert {"FROM_PROFILE", "MY_REGION"} <= names
    assert names.isdisjoint({"HEADRACE_STORE__URL", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"})


@pytest.mark.parametrize("optimize_later", [True, False])
def test_only_a_driver_that_is_waited_for_is_optimized_later(
    launcher: LocalLauncher, tmp_path: Path, handles: list[Handle], optimize_later: bool
) -> None:
    program = "print(os.environ['SPARK_SUBMIT_OPTS'], 'e' + 'nd')"
    profile = Profile(python=write_interpreter(tmp_path / "python", program))
    request = replace(make_request(tmp_path, profile), optimize_later=optimize_later)
    handles.append(launcher.start(request))
    wait_until(lambda: " end" in request.log.read_text(), what="the driver writes its log")
    assert ("-XX:Tier4InvocationThreshold" in request.log.read_text()) is optimize_later


@pytest.mark.finding("S10")
def test_only_their_owner_can_read_the_files_of_a_driver(
    launcher: LocalLauncher, tmp_path: Path, handles: list[Handle]
) -> None:
    create = "tempfile.mkdtemp(), open(os.path.join(tempfile.gettempdir(), 'file'), 'w')"
    python = write_interpreter(
        tmp_path / "python", "import tempfile", create, f"print({READY!r}, flush=True)"
    )
    request = make_request(tmp_path, Profile(python=python))
    handles.append(launcher.start(request))
    wait_until(lambda: READY in request.log.read_text(), what="the driver has written its files")
    assert len(list((tmp_path / "tmp" / request.name).iterdir())) == 2
    paths = [path for name in ("drivers", "logs", "tmp") for path in (tmp_path / name).rglob("*")]
    assert len(paths) == 5
    assert [path for path in paths if path.stat().st_mode & 0o077] == []


@pytest.mark.finding("S10")
@pytest.mark.parametrize("end", ["killed", "exited"])
def test_the_temporary_folder_of_a_driver_is_removed_when_its_end_is_confirmed(
    end: str, launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    request = make_request(tmp_path, profile)
    handles.append(launcher.start(request))
    wait_until(lambda: READY in request.log.read_text(), what="the driver runs")
    folder = tmp_path / "tmp" / request.name
    (folder / "blockmgr-1").mkdir()
    if end == "killed":
        launcher.kill(handles[0])
    else:
        psutil.Process(handles[0]["pid"]).kill()
        assert folder.exists()
        wait_until(launcher.exits, what="the exit is reported")
        # A takeover calls `kill` after every exit.
        launcher.kill(handles[0])
    assert not folder.exists()


def test_a_slow_deletion_delays_no_sweep_and_a_kill_for_a_short_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume, begun = threading.Event(), threading.Event()

    def delete_slowly(*_arguments: object, **_options: object) -> None:
        begun.set()
        resume.wait(30)

    monkeypatch.setattr(bootstrap_files, "delete_tree", delete_slowly)
    monkeypatch.setattr(bootstrap_files, "_DELETE_SECONDS", 0.2)
    launcher = LocalLauncher(make_host(tmp_path))
    profile = Profile(python=write_failing_interpreter(tmp_path / "python"))
    try:
        handle = launcher.start(make_request(tmp_path, profile))
        wait_until(launcher.exits, what="the exit is reported")
        assert not begun.is_set()
        start = time.monotonic()
        launcher.kill(handle)
        assert begun.is_set()
        assert time.monotonic() - start < 20
    finally:
        resume.set()


_USE_HANDLE = """
import json, sys
from pathlib import Path
from typing import Any
from headrace.control.launchers.local import LocalLauncher
from headrace.errors import HeadraceError
from tests.support.launches import make_host

home, handle = json.loads(sys.argv[1]), json.loads(sys.argv[2])
launcher = LocalLauncher(make_host(Path(home)))
outcomes = []
for call in (launcher.poll, launcher.kill):
    try:
        outcomes.append(repr(call(handle)))
    except HeadraceError as error:
        outcomes.append(error.code)
print(json.dumps(outcomes))
"""


def test_the_exit_of_a_watched_driver_is_reported_once_and_ends_all_its_processes(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    """A node that has restarted did not start the driver, and is not its parent."""
    request = make_request(tmp_path, profile)
    handles.append(launcher.start(request))
    wait_until(lambda: READY in request.log.read_text(), what="the driver runs")
    driver = psutil.Process(handles[0]["pid"])
    [child] = driver.children()
    other_node = LocalLauncher(make_host(tmp_path))
    other_node.watch(request.lease, handles[0])
    assert other_node.exits() == []
    driver.kill()
    [driver_exit] = wait_until(other_node.exits, what="the exit is reported")
    assert driver_exit == DriverExit(lease=request.lease, reason="the process no longer exists")
    wait_until(lambda: not running([child]), what="the child ends")
    assert other_node.exits() == []


@pytest.mark.finding("B4")
def test_a_handle_of_another_host_says_nothing_about_its_driver(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    request = make_request(tmp_path, profile)
    handles.append(launcher.start(request))
    # The two hosts share machine, boot and home, but not their process ids.
    outcomes = run_on_other_host(_USE_HANDLE, str(tmp_path), handles[0])
    assert outcomes == ["driver_on_other_host", "driver_on_other_host"]
    assert launcher.poll(handles[0]).alive
    assert bootstrap_file(tmp_path, request).exists()
    assert (tmp_path / "tmp" / request.name).exists()


@pytest.mark.finding("B4")
def test_a_driver_is_gone_after_its_host_has_restarted(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    handles.append(launcher.start(make_request(tmp_path, profile)))
    earlier_boot = {**handles[0], "host": {**handles[0]["host"], "boot": "an earlier boot"}}
    assert launcher.poll(earlier_boot).message == "its host has restarted"
    other_home = LocalLauncher(make_host(tmp_path / "other"))
    with pytest.raises(DriverOnOtherHost):
        other_home.poll(earlier_boot)


def test_another_process_with_the_pid_of_a_driver_is_not_taken_for_the_driver(
    launcher: LocalLauncher, tmp_path: Path, profile: Profile, handles: list[Handle]
) -> None:
    handles.append(launcher.start(make_request(tmp_path, profile)))
    other_node = LocalLauncher(make_host(tmp_path))
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
    request = make_request(tmp_path, profile)
    handles.append(launcher.start(request))
    launcher.announce(["http://127.0.0.1:2"])
    bootstrap = Bootstrap.model_validate_json(bootstrap_file(tmp_path, request).read_text())
    assert bootstrap.nodes == ["http://127.0.0.1:2"]


def test_new_node_addresses_do_not_bring_back_the_file_of_a_driver_that_ends(
    launcher: LocalLauncher,
    tmp_path: Path,
    profile: Profile,
    handles: list[Handle],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = make_request(tmp_path, profile)
    handles.append(launcher.start(request))
    file = bootstrap_file(tmp_path, request)
    kill = threading.Thread(target=launcher.kill, args=[handles[0]])
    write = bootstrap_files.write_private

    def write_during_a_kill(path: Path, content: str, **owner: Any) -> None:
        kill.start()
        kill.join(1)
        write(path, content, **owner)

    monkeypatch.setattr(bootstrap_files, "write_private", write_during_a_kill)
    launcher.announce(["http://127.0.0.1:2"])
    kill.join()
    assert not file.exists()
