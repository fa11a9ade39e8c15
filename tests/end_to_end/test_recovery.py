"""A driver is killed or frozen: its session goes on in another one, on real Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_SLOW = (
    "SELECT count(*) FROM range(0, 4, 1, 1)"
    " WHERE reflect('java.lang.Thread', 'sleep', 60000L) IS NOT NULL"
)
_STATE = [
    "SET my.own = 7",
    "CREATE DATABASE kept",
    "USE kept",
    "CREATE TABLE t AS SELECT 1 AS x",
    "CREATE TEMP VIEW v AS SELECT x + 1 AS y FROM t",
    "CREATE TEMPORARY FUNCTION plus(a INT) RETURNS INT RETURN a + 1",
    "DECLARE VARIABLE u STRING DEFAULT uuid()",
    "EXECUTE IMMEDIATE 'SET my.other = 8'",
]
_LOOK = "SELECT '${my.own}', '${my.other}', current_database(), y, plus(y), u FROM v"


_HOOK = """
from headrace.driver.hooks import StatementHook

class Noting(StatementHook):
    def on_created(self, statement):
        note("created", statement)
    def on_failed(self, statement, error):
        note(f"failed by {error.code}", statement)

def note(what, statement):
    with open({told!r}, "a") as file:
        file.write(f"{statement.id} {what}\\n")

def make(statement):
    return Noting()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a hook is told that is installed where drivers run, a line each."""
    folder = tmp_path_factory.mktemp("hooks")
    (folder / "noting.py").write_text(_HOOK.replace("{told!r}", repr(str(folder / "told"))))
    installed = folder / "noting-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: noting\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[headrace.hooks]\nnoting = noting:make\n")
    return folder / "told"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, told: Path) -> Iterator[NodeProcess]:
    """A node for the tests of this file, with a short lease."""
    home = tmp_path_factory.mktemp("recovery") / "home"
    process = NodeProcess(
        home,
        environment={"PYTHONPATH": str(told.parent)},
        LEASE__DURATION="4s",
        LEASE__RENEW="1s",
    )
    yield process
    process.close()


@pytest.fixture(scope="module")
def session(node: NodeProcess) -> str:
    """A session whose drivers are killed; after each of these tests the next driver is up."""
    session = node.session()
    node.wait_running(session)
    return session


def family(node: NodeProcess, session: str) -> list[psutil.Process]:
    """The driver's process, then its JVM and whatever else it has started."""
    shown = node.http.get(f"/api/v1/sessions/{session}").json()
    driver = psutil.Process(shown["driver"]["pid"])
    return [driver, *driver.children(recursive=True)]


def at_work(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != "zombie"]


def kill_python(processes: list[psutil.Process]) -> None:
    processes[0].kill()


def kill_java(processes: list[psutil.Process]) -> None:
    next(one for one in processes if "java" in one.name()).kill()


def serialize(processes: list[psutil.Process]) -> None:
    for one in processes:
        os.kill(one.pid, signal.SIGSTOP)


def running(node: NodeProcess, session: str, text: str) -> str:
    statement_id = str(node.submit(text, session)["id"])
    wait_until(lambda: node.statement(statement_id)["state"] == "running", what="it runs")
    return statement_id


def test_a_session_outlives_its_drivers(node: NodeProcess, session: str, told: Path) -> None:
    """Python killed, then the JVM, then both frozen past the lease: each time all is there."""
    first = node.http.get(f"/api/v1/sessions/{session}").json()["epoch"]
    for text in _STATE:
        assert node.run(text, session)["state"] == "success"
    [expected] = node.rows(_LOOK, session)
    assert expected[:5] == ["7", "8", "kept", 2, 3]
    for number, hurt in enumerate([kill_python, kill_java, serialize], 1):
        lost = _goes_on(node, session, hurt)
        # By the next driver, once.
        assert of(told, lost) == ["created", "failed by driver_lost"]
        assert node.rows(_LOOK, session) == [expected]
        shown = node.http.get(f"/api/v1/sessions/{session}").json()
        assert (shown["lost"], shown["epoch"]) == ([], first + 2 * number)


def of(told: Path, statement_id: str) -> list[str]:
    """What the hook was told of a statement."""
    lines = [line.partition(" ") for line in told.read_text().splitlines()]
    return [what for statement, _, what in lines if statement == statement_id]


def _goes_on(node: NodeProcess, session: str, hurt: Callable[[list[psutil.Process]], None]) -> str:
    """What ran, and is lost; what waited is run, and nothing of the old driver is left."""
    processes = family(node, session)
    command = running(node, session, f"INSERT INTO t {_SLOW}")
    waiting = node.submit("SELECT max(x) FROM t", session)["id"]
    hurt(processes)
    lost = node.statement(command, wait_timeout="30s")
    assert (lost["state"], lost["error"]["code"]) == ("failed", "driver_lost")
    # Before anything else happens in its session.
    assert at_work(processes) == []
    ended = node.statement(waiting, wait_timeout="60s")
    assert ended["state"] == "success", ended
    assert rows(node, waiting) == [[1]]
    return command


def rows(node: NodeProcess, statement_id: str) -> list[list[Any]]:
    found: list[list[Any]] = node.result(statement_id)["rows"]
    return found


def test_a_query_is_run_again(node: NodeProcess, session: str, told: Path) -> None:
    assert node.run("SET a.b = 1", session)["state"] == "success"
    query = running(node, session, _SLOW.replace("60000L", "3000L"))
    kill_python(family(node, session))
    ended = node.statement(query, wait_timeout="60s")
    assert (ended["state"], ended["attempts"]) == ("success", 2)
    assert rows(node, query) == [["4"]]
    assert of(told, query) == ["created", "failed by driver_lost", "created"]
