"""Drivers of the launcher `local` as other users of the host (`run_as = "owner"`)."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.support.launches import TOKEN, make_host, make_request
from tests.support.system_users import passable_folder, system_users
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout
from headrace.config.profiles import Profile
from headrace.control.host.home_processes import find_home_processes
from headrace.control.host.system_user import SystemUser, can_hide_processes
from headrace.control.launchers import process_group
from headrace.control.launchers.base import LaunchRequest
from headrace.control.launchers.bootstrap_files import BootstrapFiles
from headrace.control.launchers.local import LocalLauncher
from headrace.control.launchers.process_group import ProcessGroup
from headrace.errors import LaunchFailed
from headrace.model.messages import Bootstrap

PROGRAM = """\
#!/bin/sh
grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs)' /proc/self/status
echo "HOME=$HOME USER=$USER XDG=$XDG_CACHE_HOME HADOOP=$HADOOP_USER_NAME"
echo "bootstrap=$(wc -c < "$4")"
touch "$TMPDIR/mine" && echo "writes in $TMPDIR"
sleep 600
"""

FIND_FROM_OUTSIDE = """\
import os, subprocess, sys
from pathlib import Path
from headrace.config.home import HomeLayout
from headrace.control.host.home_processes import find_home_processes
from headrace.control.launchers import process_group

layout = HomeLayout.at(Path(sys.argv[1]))
layout.drivers.mkdir(parents=True)
file = str(layout.drivers / "headrace-se_0123-1.json")
with subprocess.Popen(["sh", "-c", "read line", file], stdin=subprocess.PIPE) as process:
    print(os.getsid(process.pid), process_group.find({file}), find_home_processes(layout))
    process_group.kill(process_group.ProcessGroup.of_leader(0))
    print(process.poll())
"""


@pytest.fixture(scope="module")
def users() -> Iterator[list[pwd.struct_passwd]]:
    with system_users(2) as users:
        yield users


@pytest.fixture
def folder() -> Iterator[Path]:
    with passable_folder() as folder:
        yield folder


@pytest.fixture
def launcher(folder: Path) -> LocalLauncher:
    return LocalLauncher(make_host(folder / "home"))


def make_run(folder: Path, user: pwd.struct_passwd) -> LaunchRequest:
    """Return the request for a driver that runs as a user."""
    program = folder / "python"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    request = make_request(folder / "home", Profile(python=str(program), run_as="owner"))
    folders = (folder / "home" / "results" / "owners" / user.pw_name,)
    return replace(request, run_as=user.pw_name, folders=folders)


def start(launcher: LocalLauncher, request: LaunchRequest) -> str:
    """Start a driver, wait for all that it says, and return it. The caller kills it."""
    handle = launcher.start(request)
    try:
        wait_until(lambda: "writes in" in request.log.read_text(), what="the driver has reported")
        return request.log.read_text()
    finally:
        launcher.kill(handle)
        wait_until(launcher.exits, what="the driver has ended")


def test_a_driver_has_the_groups_of_its_owner_and_no_capabilities(
    launcher: LocalLauncher,
    folder: Path,
    users: list[pwd.struct_passwd],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/of-the-node")
    monkeypatch.setenv("HADOOP_USER_NAME", "of-the-node")
    user = users[0]
    os.initgroups("root", 0)
    report = start(launcher, make_run(folder, user))
    values = dict(line.split(":\t", 1) for line in report.splitlines() if ":\t" in line)
    assert values["Uid"].split() == [str(user.pw_uid)] * 4
    assert values["Gid"].split() == [str(user.pw_gid)] * 4
    assert values["Groups"].split() == [str(user.pw_gid)]
    assert {values[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert values["NoNewPrivs"] == "1"
    assert f"HOME={user.pw_dir} USER={user.pw_name} XDG= HADOOP=" in report.splitlines()


def test_the_files_of_a_driver_belong_to_its_user_alone(
    launcher: LocalLauncher, folder: Path, users: list[pwd.struct_passwd]
) -> None:
    home = folder / "home"
    home.mkdir(0o700)
    (home / "headrace.db").touch(0o644)
    (home / "metastore").mkdir(0o755)
    request = make_run(folder, users[0])
    handle = launcher.start(request)
    try:
        own = [home / "drivers" / request.name, home / "tmp" / request.name, *request.folders]
        for place in own:
            status = place.stat()
            assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (users[0].pw_uid, 0o700)
        bootstrap = own[0] / f"{request.name}.json"
        assert TOKEN in bootstrap.read_text()
        status = bootstrap.stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (users[0].pw_uid, 0o600)
        assert stat.S_IMODE(request.log.stat().st_mode) == 0o600
        passed = {"", "drivers", "tmp", "results", "results/owners"}
        open_to_others = {
            str(path.relative_to(home)).removeprefix(".")
            for path in [home, *home.rglob("*")]
            if path.stat().st_uid == 0 and path.stat().st_mode & 0o077
        }
        assert open_to_others == passed
        assert all(not (home / name).stat().st_mode & 0o066 for name in passed)
        # While the kernel replaces the program of a process, the process has no arguments.
        wait_until(lambda: "writes in" in request.log.read_text(), what="the driver runs")
        assert launcher.find(request.name, request.profile) == handle
    finally:
        launcher.kill(handle)
        wait_until(launcher.exits, what="the driver has ended")
    assert not own[0].exists()
    assert not own[1].exists()


@pytest.mark.parametrize("run_as", ["owner", "node"])
@pytest.mark.parametrize("pretender", ["another user", "a program in another session"])
def test_no_other_process_with_the_argument_of_a_driver_is_taken_for_the_driver(
    launcher: LocalLauncher,
    folder: Path,
    users: list[pwd.struct_passwd],
    run_as: str,
    pretender: str,
) -> None:
    request = make_run(folder, users[0])
    if run_as == "node":
        request = replace(request, run_as=None, folders=())
    handle = launcher.start(request)
    layout = HomeLayout.at(folder / "home")
    file = BootstrapFiles(layout.drivers).path(request.name)
    is_other = pretender == "another user"
    owner = users[0].pw_uid if run_as == "owner" else os.getuid()
    command = ["sh", "-c", "read line", str(file)]
    user = users[1].pw_uid if is_other else owner
    try:
        with subprocess.Popen(
            command, user=user, start_new_session=is_other, stdin=subprocess.PIPE
        ) as process:
            wait_until(lambda: "writes in" in request.log.read_text(), what="the driver runs")
            assert launcher.find(request.name, request.profile) == handle
            assert [each.pid for each in find_home_processes(layout)] == [handle["pid"]]
            process_group.kill(ProcessGroup.from_handle(handle))
            assert str(file) in psutil.Process(process.pid).cmdline()
            assert launcher.find(request.name, request.profile) is None
            assert find_home_processes(layout) == []
    finally:
        launcher.kill(handle)
        wait_until(launcher.exits, what="the driver has ended")


def test_a_process_whose_session_began_outside_the_pid_namespace_is_left_alone(
    tmp_path: Path,
) -> None:
    """A node in a container, beside a program that `docker exec` has started."""
    isolated = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*isolated, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this host permits no PID namespace")
    command = [*isolated, sys.executable, "-c", FIND_FROM_OUTSIDE, str(tmp_path / "home")]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert found.stdout.splitlines() == ["0 None []", "None"]


def test_the_node_follows_no_link_in_the_folder_of_a_driver(
    launcher: LocalLauncher, folder: Path, users: list[pwd.struct_passwd]
) -> None:
    """A driver puts a link to the bootstrap of another one in place of its own."""
    requests = [make_run(folder, user) for user in users]
    handles = [launcher.start(request) for request in requests]
    try:
        own, other = (
            folder / "home" / "drivers" / request.name / f"{request.name}.json"
            for request in requests
        )
        own.unlink()
        own.symlink_to(other)
        launcher.announce(["http://10.0.0.1:8040"])
        assert own.is_symlink()
        bootstrap = Bootstrap.model_validate_json(other.read_text())
        assert bootstrap.nodes == ["http://10.0.0.1:8040"]
        assert other.stat().st_uid == users[1].pw_uid
        assert {each.name for each in own.parent.iterdir()} == {own.name}
    finally:
        for handle in handles:
            launcher.kill(handle)
        wait_until(lambda: not any(launcher.poll(handle).alive for handle in handles))
        launcher.exits()


@pytest.mark.parametrize("name", ["root", "daemon", "nobody", "no-such-user"])
def test_no_driver_runs_as_root_or_a_user_of_the_system(
    launcher: LocalLauncher, folder: Path, users: list[pwd.struct_passwd], name: str
) -> None:
    request = replace(make_run(folder, users[0]), run_as=name)
    with pytest.raises(LaunchFailed, match=name):
        launcher.start(request)
    assert not request.log.exists()


def test_a_folder_of_another_user_is_refused(
    launcher: LocalLauncher, folder: Path, users: list[pwd.struct_passwd]
) -> None:
    request = make_run(folder, users[0])
    own = request.folders[0]
    own.mkdir(parents=True)
    with pytest.raises(LaunchFailed, match=f"{own} belongs to the user with the uid 0"):
        launcher.start(request)
    own.rmdir()
    own.symlink_to(folder)
    with pytest.raises(LaunchFailed, match="belongs to the user"):
        launcher.start(request)


def test_a_path_that_the_user_cannot_reach_is_named(
    launcher: LocalLauncher, folder: Path, users: list[pwd.struct_passwd]
) -> None:
    request = make_run(folder, users[0])
    (folder / "python").chmod(0o700)
    with pytest.raises(LaunchFailed, match=f"cannot reach {folder}/python"):
        launcher.start(request)
    assert not (folder / "home" / "drivers" / request.name).exists()


def test_a_driver_sees_no_process_of_another_user(users: list[pwd.struct_passwd]) -> None:
    if not can_hide_processes():
        pytest.skip("this host permits no mount of /proc")
    user = SystemUser.find(users[0].pw_name, smallest_uid=1000)
    command = user.command(["ls", "/proc"])
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    pids = [name for name in listed.stdout.split() if name.isdigit()]
    assert str(os.getpid()) not in pids
    assert pids
