"""Sessions whose drivers run on a real standalone cluster and on YARN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from tests.support.clusters import (
    ODD,
    as_settings,
    bare_python,
    standalone_profile,
    yarn_cluster_profile,
    yarn_profile,
)
from tests.support.node import NodeProcess
from tests.support.standalone import StandaloneCluster
from tests.support.waiting import wait_until
from tests.support.yarn import CLOSED, FULL, YarnCluster

pytestmark = [pytest.mark.spark, pytest.mark.yarn]

LONG = "SELECT count(*) FROM range(1000000000000) WHERE id % 3 = 7"
PROFILES = ["standalone", "yarn", "yarn-cluster"]
KILLED_PROFILES = ["standalone", "yarn-cluster"]
"""The first starts drivers on this host, the second on the cluster."""
QUEUES = {FULL: "ACCEPTED", CLOSED: "cannot accept submission of application"}
"""Queues without resources, and what YARN reports about an application in them."""
ENCRYPTED = {"encrypt_rpc": True}
Clusters = dict[str, StandaloneCluster | YarnCluster]


@pytest.fixture(scope="module")
def clusters(standalone: StandaloneCluster, yarn: YarnCluster) -> Clusters:
    return {"standalone": standalone, "yarn": yarn, "yarn-cluster": yarn}


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, standalone: StandaloneCluster, yarn: YarnCluster
) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("backends")
    python = bare_python(folder)
    profiles = {
        "standalone": standalone_profile(standalone, python),
        "yarn": yarn_profile(yarn, python) | ENCRYPTED,
        "yarn-cluster": yarn_cluster_profile(yarn, python) | ENCRYPTED,
        **{queue: _set_queue(yarn_cluster_profile(yarn, python), queue) for queue in QUEUES},
    }
    process = NodeProcess(folder / "home", **as_settings(profiles), CATALOG__KIND="memory")
    yield process
    process.close()


@pytest.fixture(scope="module")
def sessions(node: NodeProcess) -> dict[str, str]:
    """Return a session of each profile; their drivers start in parallel."""
    return {profile: node.session(profile=profile) for profile in PROFILES}


@pytest.fixture(scope="module")
def killed_sessions(node: NodeProcess, sessions: dict[str, str]) -> dict[str, str]:
    """Return sessions whose drivers the tests kill."""
    return {profile: node.session(profile=profile) for profile in KILLED_PROFILES}


@pytest.fixture(scope="module")
def queued_sessions(node: NodeProcess, sessions: dict[str, str]) -> dict[str, str]:
    """Return sessions in queues that cannot run their drivers."""
    return {queue: node.session(profile=queue) for queue in QUEUES}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_session_runs_on_a_cluster(
    node: NodeProcess,
    clusters: Clusters,
    sessions: dict[str, str],
    profile: str,
    tmp_path: Path,
) -> None:
    cluster, session = clusters[profile], sessions[profile]
    node.wait_running(session, seconds=240)
    name = f"headrace-{session}-1"
    assert name in cluster.applications()
    assert node.rows("SELECT 1", session) == [[1]]
    assert node.rows("SET spark.test.odd", session) == [["spark.test.odd", ODD]]
    [[_, authenticated]] = node.rows("SET spark.authenticate", session)
    assert (authenticated == "true") is (profile != "standalone")
    shuffled = "SELECT id % 3 AS k, count(*) FROM range(0, 300000, 1, 3) GROUP BY k ORDER BY k"
    assert node.rows(shuffled, session) == [["0", "100000"], ["1", "100000"], ["2", "100000"]]
    # The executors write the parts of this result.
    stored = node.run("SELECT id, sha2(string(id), 256) FROM range(100000)", session)
    assert stored["state"] == "success", stored["error"]
    assert stored["result"]["disposition"] == "stored"
    # The executors load the classes that commit files.
    directory = f"file:{tmp_path}/rows"
    written = f"INSERT OVERWRITE DIRECTORY '{directory}' USING parquet SELECT id FROM range(10)"
    assert node.run(written, session)["state"] == "success"
    assert node.rows(f"SELECT count(*) FROM parquet.`{directory}`", session) == [["10"]]
    [[_, protocol]] = node.rows("SET spark.sql.sources.commitProtocolClass", session)
    assert protocol == "headrace.SharedTableCommitProtocol"
    long = node.submit(LONG, session)
    wait_until(lambda: node.statement(long["id"])["state"] == "running", what="the statement runs")
    node.http.post(f"/api/v1/statements/{long['id']}/cancel")
    assert node.wait_ended(long["id"])["state"] == "cancelled"
    node.http.delete(f"/api/v1/sessions/{session}")
    wait_until(lambda: name not in cluster.applications(), what="the application has ended")
    wait_until(lambda: node.session_state(session) == "dead", what="the session is dead")


def test_a_session_with_isolated_artifacts_writes_on_a_cluster(
    node: NodeProcess, sessions: dict[str, str], tmp_path: Path
) -> None:
    """Its executors do not load the classes of Headrace, which other sessions of a cluster use."""
    session = node.session(
        profile=next(iter(sessions)), conf={"spark.sql.artifact.isolation.enabled": "true"}
    )
    node.wait_running(session, seconds=240)
    stored = node.run("SELECT id, sha2(string(id), 256) FROM range(100000)", session)
    assert stored["state"] == "success", stored["error"]
    assert stored["result"]["row_count"] == 100_000
    directory = f"file:{tmp_path}/rows"
    written = f"INSERT OVERWRITE DIRECTORY '{directory}' USING parquet SELECT id FROM range(10)"
    inserted = node.run(written, session)
    assert inserted["state"] == "success", inserted["error"]
    node.http.delete(f"/api/v1/sessions/{session}")


def test_a_result_is_whole_although_an_executor_is_killed_while_it_writes(
    node: NodeProcess, standalone: StandaloneCluster, killed_sessions: dict[str, str]
) -> None:
    session = killed_sessions["standalone"]
    node.wait_running(session, seconds=240)
    sleep = "reflect('java.lang.Thread', 'sleep', IF(id % 10000 = 0, 1000L, 0L)) IS NOT NULL"
    text = f"SELECT id, sha2(string(id), 256) FROM range(0, 80000, 1, 8) WHERE {sleep}"
    statement = node.submit(text, session)["id"]

    def has_parts() -> bool:
        progress = node.statement(statement)["progress"] or {}
        return bool(progress.get("tasks_done", 0) >= 2)

    wait_until(has_parts, seconds=60, what="tasks have written parts")
    for executor in standalone.executors_of(f"headrace-{session}-1"):
        executor.kill()
    ended = node.wait_ended(statement)
    assert ended["state"] == "success", ended["error"]
    assert ended["attempts"] == 1
    assert ended["result"]["disposition"] == "stored"
    path = f"/api/v1/statements/{statement}/result"
    content = node.http.get(path, params={"format": "arrow"}).content
    assert pa.ipc.open_stream(content).read_all()["id"].to_pylist() == list(range(80_000))


@pytest.mark.parametrize("profile", KILLED_PROFILES)
def test_a_session_whose_driver_is_killed_leaves_no_application(
    node: NodeProcess, clusters: Clusters, killed_sessions: dict[str, str], profile: str
) -> None:
    cluster, session = clusters[profile], killed_sessions[profile]
    node.wait_running(session, seconds=240)
    name = f"headrace-{session}-1"
    pid = node.http.get(f"/api/v1/sessions/{session}").json()["driver"]["pid"]
    driver = psutil.Process(pid)
    jvm = driver.parent()
    assert jvm is not None
    assert "java" in jvm.name()
    jvm.kill()
    wait_until(lambda: node.session_state(session) == "failed", what="the session has failed")
    wait_until(lambda: name not in cluster.applications(), what="the application has ended")
    wait_until(lambda: not driver.is_running(), what="the driver has ended")


@pytest.mark.parametrize("queue", QUEUES)
def test_a_session_in_a_full_or_closed_queue_fails_with_the_message_of_yarn(
    node: NodeProcess, clusters: Clusters, queued_sessions: dict[str, str], queue: str
) -> None:
    session = queued_sessions[queue]
    wait_until(
        lambda: node.session_state(session) == "failed", seconds=120, what="the session has failed"
    )
    message = node.http.get(f"/api/v1/sessions/{session}").json()["error"]["message"]
    assert QUEUES[queue] in message
    assert f"headrace session log {session}" in message
    assert f"headrace-{session}-1" not in clusters["yarn-cluster"].applications()


def _set_queue(profile: dict[str, Any], queue: str) -> dict[str, Any]:
    conf = {**profile["conf"], "spark.yarn.queue": queue}
    return {**profile, "conf": conf, "start_timeout": "25s"}
