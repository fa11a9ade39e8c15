"""Recovery on real Spark: after a driver is killed or frozen, the next driver continues."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.node import ENDED, NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_SLOW = (
    "SELECT count(*) FROM range(0, 4, 1, 1)"
    " WHERE reflect('java.lang.Thread', 'sleep', 60000L) IS NOT NULL"
)
_SET_STATE = [
    "SET my.own = 7",
    "CREATE DATABASE kept",
    "USE kept",
    "CREATE TABLE t AS SELECT 1 AS x",
    "CREATE TEMP VIEW v AS SELECT x + 1 AS y FROM t",
    "CREATE TEMPORARY FUNCTION plus(a INT) RETURNS INT RETURN a + 1",
    "DECLARE VARIABLE u STRING DEFAULT uuid()",
    "EXECUTE IMMEDIATE 'SET my.other = 8'",
]
_READ_STATE = "SELECT '${my.own}', '${my.other}', current_database(), y, plus(y), u FROM v"


_HOOK = """
from headrace.driver.hooks import StatementHook

class RecordingHook(StatementHook):
    def on_created(self, statement):
        record("created", statement)
    def on_failed(self, statement, error):
        record(f"failed by {error.code}", statement)

def record(call, statement):
    with open({calls!r}, "a") as file:
        file.write(f"{statement.id} {call}\\n")

def create_hook(statement):
    return RecordingHook()
"""


@pytest.fixture(scope="module")
def hook_calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a hook for the drivers; return the file to which it writes its calls."""
    folder = tmp_path_factory.mktemp("hooks")
    calls = folder / "calls"
    (folder / "recording_hook.py").write_text(_HOOK.replace("{calls!r}", repr(str(calls))))
    installed = folder / "recording_hook-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: recording_hook\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(
        "[headrace.hooks]\nrecording = recording_hook:create_hook\n"
    )
    return calls


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, hook_calls: Path) -> Iterator[NodeProcess]:
    """Yield a node with a short lease for the tests of this file."""
    home = tmp_path_factory.mktemp("recovery") / "home"
    process = NodeProcess(
        home,
        environment={"PYTHONPATH": str(hook_calls.parent)},
        # A driver that is frozen costs this time. One of a busy machine may be paused, too.
        LEASE__DURATION="10s",
        LEASE__RENEW="1s",
    )
    yield process
    process.close()


@pytest.fixture(scope="module")
def session(node: NodeProcess) -> str:
    """Return a session whose drivers are killed. After each test, the next driver runs."""
    session = node.session()
    node.wait_running(session)
    return session


def find_processes(node: NodeProcess, session: str) -> list[psutil.Process]:
    """Return the process of the driver, then its JVM and other child processes."""
    response = node.http.get(f"/api/v1/sessions/{session}").json()
    driver = psutil.Process(response["driver"]["pid"])
    return [driver, *driver.children(recursive=True)]


def filter_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [
        process
        for process in processes
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]


def kill_python(processes: list[psutil.Process]) -> None:
    processes[0].kill()


def terminate_python(processes: list[psutil.Process]) -> None:
    processes[0].terminate()


def kill_java(processes: list[psutil.Process]) -> None:
    next(process for process in processes if "java" in process.name()).kill()


def freeze_all(processes: list[psutil.Process]) -> None:
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)


def submit_and_wait_running(node: NodeProcess, session: str, text: str) -> str:
    # Without atomicity, an INSERT is not safe to run again.
    conf = {"headrace.writes.atomicity": "off"}
    statement_id = str(node.submit(text, session, conf=conf)["id"])

    def is_running() -> bool:
        progress = node.statement(statement_id)["progress"]
        return bool(progress and progress["tasks_active"])

    # Before Spark has begun it, every statement is safe to run again.
    wait_until(is_running, seconds=120, what="the statement runs")
    return statement_id


def test_a_session_keeps_its_state_when_its_driver_is_killed_or_frozen(
    node: NodeProcess, session: str, hook_calls: Path
) -> None:
    first_epoch = node.http.get(f"/api/v1/sessions/{session}").json()["epoch"]
    for text in _SET_STATE:
        assert node.run(text, session)["state"] == "success"
    [expected] = node.rows(_READ_STATE, session)
    assert expected[:5] == ["7", "8", "kept", 2, 3]
    for number, fault in enumerate([kill_python, kill_java, freeze_all], 1):
        lost = check_takeover(node, session, fault)
        # The next driver calls the hook, once.
        assert read_calls(hook_calls, lost) == ["created", "failed by driver_lost"]
        assert node.rows(_READ_STATE, session) == [expected]
        response = node.http.get(f"/api/v1/sessions/{session}").json()
        assert (response["lost"], response["epoch"]) == ([], first_epoch + 2 * number)


def read_calls(hook_calls: Path, statement_id: str) -> list[str]:
    """Return the calls of the hook for a statement, in order."""
    lines = [line.partition(" ") for line in hook_calls.read_text().splitlines()]
    return [call for statement, _, call in lines if statement == statement_id]


def check_takeover(
    node: NodeProcess, session: str, fault: Callable[[list[psutil.Process]], None]
) -> str:
    """Check that a running INSERT is lost, and that the next driver runs the waiting query.

    Return the id of the INSERT.
    """
    processes = find_processes(node, session)
    command = submit_and_wait_running(node, session, f"INSERT INTO t {_SLOW}")
    waiting = node.submit("SELECT max(x) FROM t", session)["id"]
    fault(processes)
    lost = wait_ended(node, command)
    assert (lost["state"], lost["error"]["code"]) == ("failed", "driver_lost")
    # The processes end before the session continues.
    assert filter_running(processes) == []
    ended = wait_ended(node, waiting)
    assert ended["state"] == "success", ended
    assert read_rows(node, waiting) == [[1]]
    return command


def wait_ended(node: NodeProcess, statement_id: str) -> dict[str, Any]:
    """Wait until the next driver has ended a statement. On a busy machine, it starts slowly."""
    wait_until(
        lambda: node.statement(statement_id)["state"] in ENDED,
        seconds=180,
        what="the statement has ended",
    )
    return node.statement(statement_id)


def read_rows(node: NodeProcess, statement_id: str) -> list[list[Any]]:
    rows: list[list[Any]] = node.result(statement_id)["rows"]
    return rows


@pytest.mark.finding("B6")
def test_a_query_is_retried_when_its_driver_receives_sigterm(
    node: NodeProcess, session: str, hook_calls: Path
) -> None:
    assert node.run("SET a.b = 1", session)["state"] == "success"
    query = submit_and_wait_running(node, session, _SLOW.replace("60000L", "3000L"))
    terminate_python(find_processes(node, session))
    # A new statement ends the long poll of the driver, which then reacts to the signal at once.
    next_ = node.submit("SELECT 1", session)["id"]
    ended = wait_ended(node, query)
    assert (ended["state"], ended["attempts"]) == ("success", 2)
    assert read_rows(node, query) == [["4"]]
    assert wait_ended(node, next_)["state"] == "success"
    assert read_calls(hook_calls, query) == ["created", "failed by driver_lost", "created"]
