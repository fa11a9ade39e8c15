"""What a node, a driver or the store going away does to statements that were accepted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.node import ENDED, NodeProcess
from tests.support.postgres import PostgresServer, running_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_SLOW = (
    "SELECT count(*) FROM range(0, 4, 1, 1)"
    " WHERE reflect('java.lang.Thread', 'sleep', {}L) IS NOT NULL"
)
"""Four rows, each of which takes so many milliseconds."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node for those tests of this file that leave it running."""
    process = NodeProcess(tmp_path_factory.mktemp("outages") / "home")
    yield process
    process.close()


@pytest.fixture
def own_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node of the test's own, which it may kill."""
    process = NodeProcess(tmp_path / "home")
    yield process
    process.close()


@pytest.fixture(scope="module")
def session(node: NodeProcess) -> str:
    """A session whose driver outlives each of these tests."""
    session = node.session()
    node.wait_running(session)
    return session


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of the test's own, which it may stop."""
    with running_server() as server:
        yield server


def test_a_driver_outlives_its_node_and_loses_nothing(own_node: NodeProcess) -> None:
    node = own_node
    session = node.session()
    node.wait_running(session)
    statement = node.submit(_SLOW.format(2000), session)
    wait_until(lambda: node.statement(statement["id"])["state"] == "running", what="it runs")
    node.kill()
    node.start()
    ended = node.statement(statement["id"], wait_timeout="60s")
    assert ended["state"] == "success", ended
    assert node.result(statement["id"])["rows"] == [["4"]]
    assert node.rows("SELECT 1", session) == [[1]]
    assert node.http.get(f"/api/v1/sessions/{session}").json()["epoch"] == 1


def test_a_session_that_cannot_start_says_why(node: NodeProcess) -> None:
    session = node.session(conf={"spark.master": "no-such-master"})
    statement = node.submit("SELECT 1", session)
    ended = node.statement(statement["id"], wait_timeout="60s")
    assert (ended["state"], ended["error"]["code"]) == ("failed", "session_failed")
    assert f"headrace session log {session}" in ended["error"]["message"]
    log = node.http.get(f"/api/v1/sessions/{session}/log").text
    assert "Master must" in log
    error = node.http.get(f"/api/v1/sessions/{session}").json()["error"]
    assert error["code"] == "spark_unavailable"


def test_a_store_outage_loses_no_result(postgres: PostgresServer, tmp_path: Path) -> None:
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
        wait_until(lambda: node.statement(statement["id"])["state"] == "running", what="it runs")
        postgres.stop()
        try:
            wait_until(lambda: not node.is_ready(), what="the node is not ready")
            refused = node.http.post("/api/v1/statements", json={"statement": "SELECT 1"})
            assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
            assert node.http.get("/health").status_code == 200
            # Longer than the lease and than the statement: its end meets the outage.
            _await_end_of(node, session)
        finally:
            postgres.start()
        wait_until(node.is_ready, what="the node is ready again")
        ended = node.statement(statement["id"], wait_timeout="60s")
        assert ended["state"] == "success", ended
        assert node.rows("SELECT 2", session) == [[2]]
    finally:
        node.close()


def test_a_second_node_on_the_same_store_is_refused(node: NodeProcess) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "headrace.api", "--port", "0", "--home", str(node.home)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 2
    assert "headrace.db" in second.stderr
    assert str(node.process.pid) in second.stderr


def test_a_port_in_use_is_told(node: NodeProcess, tmp_path: Path) -> None:
    port = node.address.rpartition(":")[2]
    second = subprocess.run(
        [sys.executable, "-m", "headrace.api", "--port", port, "--home", str(tmp_path / "other")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 2
    assert port in second.stderr


def test_the_metastore_comes_back(node: NodeProcess, session: str) -> None:
    node.rows("CREATE TABLE kept AS SELECT 7 AS n", session)
    _metastore(node).kill()
    assert node.rows("SELECT n FROM kept", session) == [[7]]
    # Another driver waits for it as well.
    assert node.rows("SELECT n FROM kept", node.session()) == [[7]]


def _metastore(node: NodeProcess) -> psutil.Process:
    mark = f"-Dheadrace.metastore={node.home / 'metastore'}"
    found = psutil.process_iter(["cmdline"])
    [jvm] = [one for one in found if mark in (one.info["cmdline"] or [])]
    return jvm


def _jvm(driver: psutil.Process) -> psutil.Process:
    [jvm] = [one for one in driver.children(recursive=True) if "java" in one.name()]
    return jvm


def _await_end_of(node: NodeProcess, session: str) -> None:
    """Until the driver has met the outage with its report of the statement's end."""
    log = node.home / "logs" / f"{session}.log"
    wait_until(lambda: "answers 503 to ended" in log.read_text(), what="the report was refused")


def test_a_metastore_that_dies_in_the_middle_of_a_rename(node: NodeProcess, session: str) -> None:
    """It has moved the table's files, and not yet said so: with these partitions it takes long."""
    node.rows("CREATE DATABASE half", session)
    text = "CREATE TABLE half.t USING parquet PARTITIONED BY (k) AS SELECT id, id % 150 AS k"
    sent = node.submit(f"{text} FROM range(0, 1500, 1, 1)", session)["id"]
    place = node.home / "warehouse" / "half.db"
    wait_until((place / "t").exists, every=0.001, seconds=60, what="its files are moved")
    _metastore(node).kill()
    assert node.statement(sent)["state"] == "running"
    wait_until(lambda: node.statement(sent)["state"] in ENDED, seconds=120, what="it has ended")
    assert node.statement(sent)["state"] == "success", node.statement(sent)
    assert node.rows("SELECT count(*), sum(id) FROM half.t", session) == [["1500", "1124250"]]
    assert [row[1] for row in node.rows("SHOW TABLES IN half", session)] == ["t"]
    assert [one.name for one in place.iterdir()] == ["t"]
    assert "moved its files back" in (node.home / "logs" / f"{session}.log").read_text()
