"""Outages of nodes, metastores and the store, and their effect on accepted statements."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.node import ENDED, NodeProcess
from tests.support.postgres import PostgresServer, running_server
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_SLOW = (
    "SELECT count(*) FROM range(0, 4, 1, 1)"
    " WHERE reflect('java.lang.Thread', 'sleep', {}L) IS NOT NULL"
)
"""A query of four rows. The placeholder is the time for each row, in milliseconds."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Yield a node for the tests of this file that do not stop it."""
    process = NodeProcess(tmp_path_factory.mktemp("outages") / "home")
    yield process
    process.close()


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """Yield a node that the test may kill."""
    process = NodeProcess(tmp_path / "home")
    yield process
    process.close()


@pytest.fixture(scope="module")
def session(node: NodeProcess) -> str:
    """Return a running session. No test ends its driver."""
    session = node.session()
    node.wait_running(session)
    return session


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """Yield a PostgreSQL server that the test may stop."""
    with running_server() as server:
        yield server


def test_a_statement_survives_the_restart_of_its_node(own_node: NodeProcess) -> None:
    node = own_node
    session = node.session()
    node.wait_running(session)
    statement = node.submit(_SLOW.format(2000), session)
    wait_until(
        lambda: node.statement(statement["id"])["state"] == "running", what="the statement runs"
    )
    node.kill()
    node.start()
    ended = node.wait_ended(statement["id"])
    assert ended["state"] == "success", ended
    assert node.result(statement["id"])["rows"] == [["4"]]
    assert node.rows("SELECT 1", session) == [[1]]
    assert node.http.get(f"/api/v1/sessions/{session}").json()["epoch"] == 1


def find_driver(node: NodeProcess, session: str, epoch: int) -> dict[psutil.Process, list[str]]:
    """Return the processes of the driver of an epoch, each with its command line."""
    # The names of all files of a driver begin with the name of its launch.
    name = f"headrace-{session}-{epoch}."
    commands = {}
    for process in processes_of(node.home):
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if name in " ".join(command):
                commands[process] = command
    return commands


def kill_driver(node: NodeProcess, session: str, epoch: int) -> None:
    """Kill the processes of the driver of an epoch, when its JVM has started."""

    def find_with_jvm() -> set[psutil.Process]:
        commands = find_driver(node, session, epoch)
        has_jvm = any("java" in Path(command[0]).name for command in commands.values())
        return set(commands) if has_jvm else set()

    end(wait_until(find_with_jvm, seconds=120, what=f"the JVM of epoch {epoch} starts", every=0.1))


def test_a_start_that_is_killed_with_its_node_is_repeated_and_its_session_continues(
    own_node: NodeProcess,
) -> None:
    node = own_node
    session = node.session()
    node.wait_running(session)
    assert node.run("SET my.k = 7", session)["state"] == "success"
    kill_driver(node, session, 1)
    query = node.submit("SELECT 1", session)["id"]
    # A takeover and a launch each raise the epoch.
    wait_until(lambda: node.describe_session(session)["epoch"] == 3, what="the next start")
    # The node records the epoch before it launches the driver, and must not die in between.
    wait_until(lambda: find_driver(node, session, 3), what="the driver of epoch 3", every=0.1)
    node.kill()
    kill_driver(node, session, 3)
    node.start()
    # The start timeout is two minutes: the next start does not wait for it.
    wait_until(
        lambda: node.describe_session(session)["epoch"] == 5,
        seconds=120,
        what="the dead start is found, and the next one begins",
    )
    ended = node.wait_ended(query)

    assert ended["state"] == "success", ended
    assert node.result(query)["rows"] == [[1]]
    assert node.rows("SELECT '${my.k}'", session) == [["7"]]
    described = node.describe_session(session)
    assert (described["state"], described["epoch"], described["lost"]) == ("running", 5, [])
    details = [event["detail"] for event in node.events(session)]
    # One running driver was lost, and one start has failed.
    assert [detail["epoch"] for detail in details if "reason" in detail] == [1, 3]


def test_a_session_that_cannot_start_reports_the_reason(node: NodeProcess) -> None:
    session = node.session(conf={"spark.master": "no-such-master"})
    statement = node.submit("SELECT 1", session)
    ended = node.wait_ended(statement["id"])
    assert (ended["state"], ended["error"]["code"]) == ("failed", "session_failed")
    assert f"headrace session log {session}" in ended["error"]["message"]
    log = node.http.get(f"/api/v1/sessions/{session}/log").text
    assert "Master must" in log
    error = node.http.get(f"/api/v1/sessions/{session}").json()["error"]
    assert error["code"] == "spark_unavailable"


def test_a_result_is_kept_when_the_store_is_down_while_its_statement_ends(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    node = NodeProcess(
        tmp_path / "home",
        STORE__URL=postgres.url(postgres.new_database()),
        CATALOG__KIND="memory",
        LEASE__DURATION="4s",
        LEASE__RENEW="1s",
    )
    try:
        session = node.session()
        node.wait_running(session)
        statement = node.submit(_SLOW.format(1500), session)
        wait_until(
            lambda: node.statement(statement["id"])["state"] == "running", what="the statement runs"
        )
        postgres.stop()
        try:
            wait_until(lambda: not node.is_ready(), what="the node is not ready")
            refused = node.http.post("/api/v1/statements", json={"statement": "SELECT 1"})
            assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
            assert node.http.get("/health").status_code == 200
            # The outage outlasts the lease and the statement, so the report of its end fails.
            _wait_end_refused(node, session)
        finally:
            postgres.start()
        wait_until(node.is_ready, what="the node is ready again")
        ended = node.wait_ended(statement["id"])
        assert ended["state"] == "success", ended
        assert node.rows("SELECT 2", session) == [[2]]
    finally:
        node.close()


def test_a_second_node_of_the_same_home_is_refused(node: NodeProcess) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "headrace.frontends", "--port", "0", "--home", str(node.home)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert second.returncode == 2
    assert f"Process {node.process.pid}" in second.stderr
    assert f"still serves the home {node.home}" in second.stderr


def test_a_node_on_a_port_in_use_is_refused(node: NodeProcess, tmp_path: Path) -> None:
    port = node.address.rpartition(":")[2]
    second = subprocess.run(
        [
            sys.executable,
            "-m",
            "headrace.frontends",
            "--port",
            port,
            "--home",
            str(tmp_path / "other"),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert second.returncode == 2
    assert port in second.stderr


def test_a_killed_metastore_is_restarted(node: NodeProcess, session: str) -> None:
    node.rows("CREATE TABLE durable AS SELECT 7 AS n", session)
    _find_metastore(node).kill()
    assert node.rows("SELECT n FROM durable", session) == [[7]]
    # A driver that starts now waits for the metastore, too.
    assert node.rows("SELECT n FROM durable", node.session()) == [[7]]


def _find_metastore(node: NodeProcess) -> psutil.Process:
    mark = f"-Dheadrace.metastore={node.home / 'metastore'}"
    processes = psutil.process_iter(["cmdline"])
    [jvm] = [process for process in processes if mark in (process.info["cmdline"] or [])]
    return jvm


def _wait_end_refused(node: NodeProcess, session: str) -> None:
    """Wait until the node has refused the driver's report of the statement's end."""
    log = node.home / "logs" / f"{session}.log"
    wait_until(lambda: "answers 503 to ended" in log.read_text(), what="the report was refused")


def test_a_rename_that_the_metastore_did_not_finish_is_repaired(
    node: NodeProcess, session: str
) -> None:
    # The metastore has moved the files when it dies. Many partitions make the rename slow.
    node.rows("CREATE DATABASE half", session)
    metastore = _find_metastore(node)
    text = "CREATE TABLE half.t USING parquet PARTITIONED BY (k) AS SELECT id, id % 150 AS k"
    statement_id = node.submit(f"{text} FROM range(0, 1500, 1, 1)", session)["id"]
    folder = node.home / "warehouse" / "half.db"
    wait_until((folder / "t").exists, every=0.001, seconds=60, what="the files are moved")
    metastore.kill()
    assert node.statement(statement_id)["state"] == "running"
    wait_until(
        lambda: node.statement(statement_id)["state"] in ENDED,
        seconds=120,
        what="the CTAS has ended",
    )
    assert node.statement(statement_id)["state"] == "success", node.statement(statement_id)
    assert node.rows("SELECT count(*), sum(id) FROM half.t", session) == [["1500", "1124250"]]
    assert [row[1] for row in node.rows("SHOW TABLES IN half", session)] == ["t"]
    assert [path.name for path in folder.iterdir()] == ["t"]
    assert "moved its files back" in (node.home / "logs" / f"{session}.log").read_text()


@pytest.mark.parametrize("verb", ["INTO", pytest.param("OVERWRITE", marks=pytest.mark.matrix)])
def test_a_write_whose_partitions_the_metastore_did_not_add_is_completed(
    node: NodeProcess, session: str, verb: str
) -> None:
    # The metastore dies when files are moved in. Many partitions make the commit slow.
    database = f"unfinished_{verb.lower()}"
    node.rows(f"CREATE DATABASE {database}", session)
    table = f"{database}.t"
    node.rows(
        f"CREATE TABLE {table} (id BIGINT, k BIGINT) USING parquet PARTITIONED BY (k)", session
    )
    node.rows(f"INSERT INTO {table} VALUES (-1, -1)", session)
    metastore = _find_metastore(node)
    text = f"INSERT {verb} {table} SELECT id, id % 150 AS k FROM range(0, 1500, 1, 1)"
    statement_id = node.submit(text, session)["id"]
    folder = node.home / "warehouse" / f"{database}.db" / "t"
    wait_until(
        lambda: any(folder.glob("k=1/*.parquet")), every=0.001, seconds=60, what="files are moved"
    )
    metastore.kill()
    assert node.statement(statement_id)["state"] == "running"
    wait_until(
        lambda: node.statement(statement_id)["state"] in ENDED,
        seconds=120,
        what="the INSERT has ended",
    )
    written = node.statement(statement_id)
    assert (written["state"], written["atomic"]) == ("success", True), written
    total = node.rows(f"SELECT count(*), sum(id) FROM {table}", session)
    assert total == [["1501", "1124249"] if verb == "INTO" else ["1500", "1124250"]]
    partitions = node.rows(f"SHOW PARTITIONS {table}", session)
    assert len(partitions) == (151 if verb == "INTO" else 150)
    assert not list(folder.glob(".headrace_*"))
