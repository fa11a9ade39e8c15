"""Two owners on one node, each with a real driver under its own user of the host."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.files import find_matching
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.store import get_session
from tests.support.system_users import can_run_python, passable_folder, system_users
from tests.support.waiting import wait_until

import headrace
from headrace.control.host.system_user import can_hide_processes
from headrace.control.launchers.base import Handle, LauncherHost, LaunchRequest
from headrace.control.launchers.local import LocalLauncher
from headrace.control.policy import Caller
from headrace.model.lifecycle import STATEMENT, SessionState, StatementState
from headrace.model.result import Disposition, ResultRequest
from headrace.model.session import Session, SessionSpec
from headrace.model.statement import Statement, StatementSpec
from headrace.store.identity import users

pytestmark = pytest.mark.spark

PROBE = """\
#!/bin/sh
# Prints each path that this user can read, or list, or write to.
while read -r path; do
    if [ -d "$path" ]; then
        ls "$path" > /dev/null 2>&1 && echo "lists $path"
        touch "$path/planted" 2> /dev/null && echo "writes to $path"
    else
        head -c 1 "$path" 2> /dev/null | grep -q '' && echo "reads $path"
    fi
done < "$1"
grep -E '^(Uid|Groups|CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr '\\t' ' '
echo done
"""


class Owner:
    """An owner with a session whose driver runs as a user of the host."""

    def __init__(self, node: InProcessNode, account: pwd.struct_passwd) -> None:
        self._node, self.account = node, account
        with node.database.write("test") as tx:
            name = account.pw_name
            self.id = users.sign_in(tx, "os", f"subject-of-{name}", name=name, groups=[]).id
        self.caller = Caller(self.id)
        self.session_id = node.node.sessions.open(self.caller, SessionSpec()).id

    @property
    def session(self) -> Session:
        return get_session(self._node.database, self.session_id)

    def wait_running(self) -> None:
        def is_running() -> bool:
            session = self.session
            log = self._node.node.settings.layout.session_log(session.id)
            assert session.state is not SessionState.FAILED, (session.failure, log)
            return session.state is SessionState.RUNNING

        wait_until(is_running, seconds=240, what="the driver runs")

    def run(self, text: str, disposition: Disposition = Disposition.AUTO) -> Statement:
        """Run a statement in the session, which must succeed."""
        request = ResultRequest(disposition=disposition)
        statement = self._node.node.statements.submit_and_wait(
            self.caller,
            StatementSpec(text=text, result_request=request),
            session=self.session_id,
            seconds=240,
        )
        assert statement.state in STATEMENT.terminal
        assert statement.state is StatementState.SUCCESS, statement.failure
        return statement

    def rows(self, text: str) -> list[str]:
        """Return the first column of the rows of a statement."""
        rows = self._node.node.statements.open_result(self.caller, self.run(text))
        return [value.as_py() for batch in rows.batches() for value in batch.column(0)]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with passable_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def accounts() -> Iterator[list[pwd.struct_passwd]]:
    with system_users(2) as accounts:
        yield accounts


@pytest.fixture(scope="module")
def node(folder: Path, accounts: list[pwd.struct_passwd]) -> Iterator[InProcessNode]:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pythons = [sys.executable, f"/usr/bin/{version}"]
    python = next((each for each in pythons if can_run_python(accounts[0], each)), None)
    if python is None:
        pytest.skip(f"no {version} that other users can run: {', '.join(pythons)}")
    packages = [str(Path(headrace.__file__).parents[1]), *filter(os.path.isdir, sys.path)]
    profile = {
        "run_as": "owner",
        "python": python,
        "env": {
            "PYTHONPATH": ":".join(
                each for each in packages if "site-packages" in each or each == packages[0]
            )
        },
        "conf": {"spark.driver.memory": "512m"},
    }
    http = {"auth": True}
    settings = make_settings(folder / "home", profiles={"default": profile}, http=http)
    # As the process of a node does.
    umask = os.umask(0o077)
    launcher = _Launcher(LauncherHost.of_settings(settings))
    try:
        with serve_node(settings, launcher) as node:  # type: ignore[arg-type]
            yield node
    finally:
        os.umask(umask)


class _Launcher(LocalLauncher):
    """The real launcher, with the end that the launchers of test nodes have."""

    def __init__(self, host: LauncherHost) -> None:
        super().__init__(host)
        self._started: list[Handle] = []

    def start(self, request: LaunchRequest) -> Handle:
        handle = super().start(request)
        self._started.append(handle)
        return handle

    def close(self) -> None:
        for handle in self._started:
            self.kill(handle)
        wait_until(lambda: not (self.exits() or self._children._children), what="all have ended")


@pytest.fixture(scope="module")
def owners(node: InProcessNode, accounts: list[pwd.struct_passwd]) -> list[Owner]:
    owners = [Owner(node, account) for account in accounts]
    for owner in owners:
        owner.wait_running()
    return owners


def processes_of(owner: Owner) -> list[psutil.Process]:
    handle = owner.session.handle
    assert handle is not None
    driver = psutil.Process(handle["pid"])
    children = [each for each in driver.children(recursive=True) if "java" in each.name()]
    return [driver, *children]


def test_a_driver_reads_nothing_of_another_owner_and_of_the_node(
    node: InProcessNode, owners: list[Owner], folder: Path
) -> None:
    mine, other = owners
    home = node.node.settings.layout
    for owner in owners:
        owner.run("CREATE TABLE t USING parquet AS SELECT 1 AS id")
        stored = owner.run("SELECT id, 'row' FROM range(1000)", Disposition.STORED)
        assert stored.result is not None
        assert stored.result.location is not None
        private = Path(owner.account.pw_dir) / "private"
        private.write_text("x")
        os.chown(private, owner.account.pw_uid, owner.account.pw_gid)
        private.chmod(0o600)

    def list_files(owner: Owner) -> list[Path]:
        """Return the files and folders that belong to one owner."""
        name = f"headrace-{owner.session_id}-1"
        folders = [
            Path(node.node.settings.results_location) / "owners" / owner.id,
            home.warehouse / owner.id,
            home.drivers / name,
            home.temporary / name,
            Path(owner.account.pw_dir) / "private",
        ]
        nested = [path for folder in folders for path in find_matching(folder, "*")]
        files = [*folders, *(path for path in nested if not path.is_socket())]
        assert len([path for path in files if path.is_file()]) >= 5
        return files

    of_other = list_files(other)
    of_node = [
        home.session_log(other.session_id),
        home.session_log(mine.session_id),
        home.store_file,
        home.node_file,
        home.node_id_file,
        home.token_file,
        *home.path.glob("headrace.db-*"),
        *(each for each in home.path.iterdir() if each.is_dir()),
        home.path,
    ]
    assert all(path.exists() for path in [*of_other, *of_node])
    pids = [process.pid for process in processes_of(other)]
    assert len(pids) >= 2
    of_processes = [
        Path(f"/proc/{pid}/{name}")
        for pid in [*pids, os.getpid()]
        for name in ("environ", "cmdline", "fd")
    ]
    own = [path for path in list_files(mine) if path.is_file() and path.stat().st_size]

    report = _probe(mine, folder, [*of_other, *of_node, *of_processes])
    if not can_hide_processes():
        # Nothing secret is in the arguments, and `headrace doctor` says that they are visible.
        report = [line for line in report if not line.endswith("/cmdline")]
    assert [line for line in report if line.startswith(("reads", "lists", "writes"))] == []
    assert report[-1] == "done"
    # The probe finds what it may read, and it runs as the owner.
    assert {f"reads {path}" for path in own} <= {*_probe(mine, folder, own)}
    uid, gid = mine.account.pw_uid, mine.account.pw_gid
    assert f"Uid: {' '.join([str(uid)] * 4)}" in report
    assert f"Groups: {gid}" in [line.strip() for line in report]
    assert f"CapEff: {'0' * 16}" in report
    assert f"CapBnd: {'0' * 16}" in report
    assert "NoNewPrivs: 1" in report


def _probe(owner: Owner, folder: Path, paths: list[Path]) -> list[str]:
    """Return what a shell in the driver of an owner can do with these paths."""
    program, listing = folder / "probe.sh", folder / "paths"
    program.write_text(PROBE)
    listing.write_text("".join(f"{path}\n" for path in paths))
    for file in (program, listing):
        file.chmod(0o644)
    return owner.rows(
        f"SELECT TRANSFORM(id) USING '/bin/sh {program} {listing}' AS (line STRING)"
        " FROM VALUES (1) AS t(id)"
    )


def test_no_argument_of_a_process_holds_a_secret(node: InProcessNode, owners: list[Owner]) -> None:
    for owner in owners:
        arguments = " ".join(" ".join(process.cmdline()) for process in processes_of(owner))
        assert node.node.token is not None
        assert node.node.token not in arguments
        handle = owner.session.handle
        assert handle is not None
        environment = psutil.Process(handle["pid"]).environ()
        assert not [name for name in environment if name.startswith("HEADRACE_")]
        assert environment["HOME"] == owner.account.pw_dir


def test_the_node_reads_the_results_of_both(owners: list[Owner]) -> None:
    for owner in owners:
        owner.run("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 'mine' AS c FROM range(3)")
        assert owner.rows("SELECT c FROM v") == ["mine"] * 3
        stored = owner.run("SELECT id FROM range(1000)", Disposition.STORED)
        assert stored.result is not None
        assert stored.result.row_count == 1000
