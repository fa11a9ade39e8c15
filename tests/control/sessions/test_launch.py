"""Launches: configuration, slow backends, and profiles that only some nodes have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.scripted_driver import ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.model.ids import new_id
from headrace.model.session import NewSession, SessionSpec
from headrace.store import nodes
from headrace.store.database import Database, Tx
from headrace.store.sessions import sessions

_QUICK = {"sweep": "50ms"}


@contextmanager
def hold_starts(launcher: ScriptedLauncher) -> Iterator[threading.Semaphore]:
    """Let every start of a backend take as long as the block; yield a count of these starts."""
    entered, release = threading.Semaphore(0), threading.Event()

    def hold(_name: str) -> None:
        entered.release()
        assert release.wait(60)

    launcher.on_start = hold
    try:
        yield entered
    finally:
        launcher.on_start = lambda _name: None
        release.set()


@pytest.mark.finding("B3")
def test_drivers_cache_no_tables_that_other_sessions_may_change(node: InProcessNode) -> None:
    conf = {
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.cached": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.cached.cache-enabled": "true",
    }
    request = node.launcher.wait_for_request(node.session(conf=conf))
    assert request.bootstrap.conf["spark.sql.filesourceTableRelationCacheSize"] == "0"
    assert request.bootstrap.conf["spark.sql.catalog.ice.cache-enabled"] == "false"
    assert request.bootstrap.conf["spark.sql.catalog.cached.cache-enabled"] == "true"


SECRET = "secret-of-the-cluster"


def test_a_profile_encrypts_what_spark_sends_with_a_secret_that_only_drivers_get(
    start_node: StartNode,
) -> None:
    profile = {
        "master": "spark://master:7077",
        "encrypt_rpc": True,
        "conf": {"spark.authenticate.secret": SECRET},
    }
    node = start_node(profiles={"default": profile, "plain": {}})
    for key in ("spark.authenticate", "spark.network.crypto.enabled"):
        body = {"conf": {key: "false"}}
        assert node.http.post("/api/v1/sessions", json=body).json()["code"] == "setting_denied"
    session_id, driver = node.start_session()
    conf = driver.bootstrap.conf
    assert {key: value for key, value in conf.items() if "auth" in key or "crypto" in key} == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": SECRET,
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.saslFallback": "false",
    }
    plain = node.launcher.wait_for_request(node.session(profile="plain")).bootstrap.conf
    assert "spark.authenticate" not in plain

    for path in ("sessions", f"sessions/{session_id}", f"sessions/{session_id}/log", "nodes"):
        assert SECRET not in node.http.get(f"/api/v1/{path}").text
    assert SECRET not in node.http.get("/api/v1/events", params={"limit": 1000}).text
    for file in node.node.settings.home.glob("headrace.db*"):
        assert SECRET.encode() not in file.read_bytes()


@pytest.mark.finding("B8")
def test_a_slow_start_of_a_driver_delays_neither_timeouts_nor_takeovers(
    start_node: StartNode,
) -> None:
    node = start_node(lease=_QUICK)
    session_id, driver = node.start_session()
    query = node.submit(session=session_id)["id"]
    driver.claim()
    with hold_starts(node.launcher) as held:
        slow = node.session()
        assert held.acquire(timeout=60)
        late = node.submit("SHOW TABLES", session=session_id, queue_timeout="100ms")["id"]
        assert node.statement(late, wait_timeout="60s")["state"] == "timeout"
        node.launcher.report_exit(session_id, "killed by SIGKILL")
        wait_until(
            lambda: node.statement(query)["state"] == "waiting",
            what="the takeover is finished",
        )
        assert node.session_state(slow) == "starting"


@pytest.mark.finding("B8")
def test_a_slow_backend_takes_a_limited_number_of_starts_and_delays_no_other_backend(
    tmp_path: Path,
) -> None:
    other = ScriptedLauncher("spark-submit")
    settings = make_settings(
        tmp_path / "node",
        lease=_QUICK,
        profiles={"cluster": {"backend": "spark-submit", "master": "spark://host:7077"}},
    )
    with (
        serve_node(settings, others=[other]) as node,
        hold_starts(node.launcher) as held,
    ):
        slow = [node.session() for _ in range(10)]
        for _ in range(8):
            assert held.acquire(timeout=60)
        on_cluster = node.session(profile="cluster")
        driver = other.connect_driver(on_cluster)
        assert driver.hello().applied
        assert [node.session_state(each) for each in slow].count("not_started") == 2


@contextmanager
def serve_cluster_node(
    home: Path, store: str, **profiles: dict[str, Any]
) -> Iterator[InProcessNode]:
    """Serve one of several nodes on a PostgreSQL store."""
    settings = make_settings(home, store={"url": store}, lease=_QUICK, profiles=profiles)
    with serve_node(settings) as node:
        yield node


@pytest.mark.finding("B13")
def test_a_session_whose_profile_only_another_node_has_is_left_to_that_node(
    tmp_path: Path, postgres_url: str
) -> None:
    with ExitStack() as stack:
        plain = stack.enter_context(serve_cluster_node(tmp_path / "plain", postgres_url))
        large = stack.enter_context(
            serve_cluster_node(tmp_path / "large", postgres_url, large={"master": "local[8]"})
        )
        # This node is alive, but busy: it does not launch the session yet.
        large.node._tasks.stop()
        session_id = large.session(profile="large")
        plain.start_session()
        plain.start_session()
        assert plain.session_state(session_id) == "not_started"
        third = stack.enter_context(
            serve_cluster_node(tmp_path / "third", postgres_url, large={"master": "local[8]"})
        )
        assert third.launcher.connect_driver(session_id).hello().applied
        nodes = {node["id"]: node for node in plain.http.get("/api/v1/nodes").json()["items"]}
        assert nodes[plain.node.id]["profiles"] == ["default"]
        assert nodes[large.node.id]["profiles"] == ["default", "large"]
        assert nodes[large.node.id]["backends"] == ["local"]


def test_a_driver_knows_all_live_nodes_from_its_start(tmp_path: Path, postgres_url: str) -> None:
    """If the node that starts a driver dies before the first renewal, the driver calls another."""
    with ExitStack() as stack:
        first = stack.enter_context(serve_cluster_node(tmp_path / "first", postgres_url))
        large = stack.enter_context(
            serve_cluster_node(tmp_path / "large", postgres_url, large={"master": "local[8]"})
        )
        request = large.launcher.wait_for_request(large.session(profile="large"))
        addresses = [node.node.context.address for node in (large, first)]
        assert request.bootstrap.nodes == addresses


@pytest.mark.finding("B13")
def test_a_session_whose_profile_no_node_has_fails(start_node: StartNode) -> None:
    node = start_node(lease=_QUICK)
    session_id = insert_session(node.database, profile="gone")
    wait_until(lambda: node.session_state(session_id) == "failed")
    error = node.describe_session(session_id)["error"]
    assert error["code"] == "invalid_setting"
    assert error["message"] == (
        "No node has the profile 'gone'. Profiles: default. "
        "Fix: Add the profile to the settings of a node, or choose another profile."
    )


def test_a_sweep_reads_the_profiles_of_all_nodes_once_for_all_sessions(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = start_node()
    node.node._tasks.stop()
    reads: list[set[str]] = []

    def read_profiles(tx: Tx, seconds: float) -> set[str]:
        reads.append(offered_profiles(tx, seconds) | {"elsewhere"})
        return reads[-1]

    offered_profiles = nodes.offered_profiles
    monkeypatch.setattr(nodes, "offered_profiles", read_profiles)
    foreign = [insert_session(node.database, profile="elsewhere") for _ in range(3)]
    unlaunchable = insert_session(node.database, profile="gone")
    node.node._launches.start_pending()
    assert len(reads) == 1
    assert {node.session_state(session_id) for session_id in foreign} == {"not_started"}
    assert node.session_state(unlaunchable) == "failed"


def insert_session(database: Database, profile: str) -> str:
    """Insert a session as another node would, with a profile that this node may not have."""
    session_id = new_id("se")
    with database.write("test") as tx:
        new = NewSession(id=session_id, owner=LOCAL_OWNER, spec=SessionSpec(profile=profile))
        sessions.insert(tx, new, actor=LOCAL_OWNER)
    return session_id
