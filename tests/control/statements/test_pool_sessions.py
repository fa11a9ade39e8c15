"""Statements without a session: they share the pool session of their owner."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process_node import (
    ARTIFACTS_ALLOWED,
    InProcessNode,
    StartNode,
    make_settings,
    serve_node,
    watch_polls,
)
from tests.support.store import waits_for_lock
from tests.support.views import ViewWriter
from tests.support.waiting import wait_until

from headrace.model.lifecycle import SessionState
from headrace.store.sessions import sessions


def test_statements_without_a_session_run_beside_each_other(start_node: StartNode) -> None:
    node = start_node(sessions={"pool_parallelism": 2})
    submitted = [node.submit(f"INSERT INTO t VALUES ({number})") for number in range(3)]
    assert len({statement["session_id"] for statement in submitted}) == 1
    first, second, third = (statement["id"] for statement in submitted)
    driver = node.launcher.connect_driver(submitted[0]["session_id"])
    driver.hello()

    orders = driver.claim()
    assert (orders.statement_id, orders.isolated) == (first, True)
    # An assignment that did not arrive is sent again as it was.
    again = driver.poll().assignment
    assert again is not None
    assert (again.statement_id, again.isolated) == (first, True)
    other = driver.poll(in_flight=[first]).assignment
    assert other is not None
    assert (other.statement_id, other.isolated) == (second, True)
    assert driver.poll(in_flight=[first, second]).assignment is None
    driver.succeed(first)
    last = driver.poll(in_flight=[second]).assignment
    assert last is not None
    assert last.statement_id == third


def test_a_named_session_shares_its_spark_session(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    node.submit(session=session_id)
    assert not driver.claim().isolated
    assert not node.http.get(f"/api/v1/sessions/{session_id}").json()["pool"]


def test_a_pool_session_can_be_named_in_a_submit(start_node: StartNode) -> None:
    node = start_node()
    pool = node.submit()["session_id"]
    assert node.http.get(f"/api/v1/sessions/{pool}").json()["pool"]
    assert node.submit(session=pool)["session_id"] == pool
    driver = node.launcher.connect_driver(pool)
    driver.hello()
    assert driver.claim().isolated


@pytest.mark.parametrize("kind", ["batch", "streaming"])
def test_work_of_another_kind_has_a_session_of_its_own(node: InProcessNode, kind: str) -> None:
    pool = node.submit()["session_id"]
    assert node.submit(kind=kind)["session_id"] != pool


@pytest.mark.parametrize("named", [None, {}, {"catalog": "lake"}, {"database": "sales"}])
def test_a_refresh_runs_in_the_driver_of_the_pool_session(
    start_node: StartNode, named: dict[str, str] | None
) -> None:
    node = start_node()
    view = ViewWriter(node).make()
    session = None if named is None else node.session(**named)
    pool = node.submit("DROP TABLE a")["session_id"]
    driver = node.launcher.connect_driver(pool)
    driver.hello()
    claimed = driver.claim().statement_id
    for _ in range(2):
        refresh = node.submit(f"REFRESH MATERIALIZED VIEW {view.name}", session=session)
        # It runs beside the other statements of the pool session.
        assignment = driver.poll(in_flight=[claimed]).assignment
        assert assignment is not None
        assert (assignment.statement_id, assignment.isolated) == (refresh["id"], True)
        view.write(driver, refresh["id"])
        assert (refresh["session_id"], refresh["kind"]) == (pool, "batch")


@pytest.mark.parametrize(
    "fields",
    [
        {"profile": "large"},
        {"conf": {"spark.executor.memory": "1g"}},
        {"jars": ["/a.jar"]},
        {"files": ["/a.txt"]},
        {"py_files": ["/a.py"]},
        {"kind": "batch"},
    ],
)
def test_a_refresh_that_needs_another_driver_has_a_session_of_its_own(
    start_node: StartNode, fields: dict[str, Any]
) -> None:
    node = start_node(profiles={"default": {}, "large": {}}, conf_policy=ARTIFACTS_ALLOWED)
    view = ViewWriter(node).make()
    pool = node.submit("DROP TABLE a")["session_id"]
    request = fields if "kind" in fields else {"session": node.session(**fields)}
    refresh = node.submit(f"REFRESH MATERIALIZED VIEW {view.name}", **request)
    own = node.describe_session(refresh["session_id"])
    assert own["id"] not in {pool, request.get("session")}
    assert (own["kind"], own["profile"]) == ("batch", fields.get("profile", "default"))


def test_a_refresh_without_a_pool_session_takes_a_warm_driver_of_its_profile(
    start_node: StartNode,
) -> None:
    node = start_node(
        lease={"sweep": "50ms"}, profiles={"default": {"warm": 1}, "large": {"warm": 1}}
    )
    first, second = ViewWriter(node).make(), ViewWriter(node, profile="large").make()
    wait_until(lambda: len(node.launcher.started) >= 4, what="warm drivers beside the two others")
    warm = {handle["name"].split("-")[1] for handle in node.launcher.started}
    warm -= {first.session, second.session}
    for session in warm:
        node.launcher.connect_driver(session).hello()
    refreshes = [
        node.submit(f"REFRESH MATERIALIZED VIEW {view.name}", session=session)
        for view, session in ((first, None), (second, second.session))
    ]
    assert {each["session_id"] for each in refreshes} == warm
    described = [node.describe_session(each["session_id"]) for each in refreshes]
    assert [(each["profile"], each["pool"]) for each in described] == [
        ("default", True),
        ("large", False),
    ]


def test_a_pool_session_that_is_closing_is_replaced(start_node: StartNode) -> None:
    node = start_node()
    pool = node.submit()["session_id"]
    node.launcher.connect_driver(pool).hello()
    assert node.http.delete(f"/api/v1/sessions/{pool}").json()["state"] == "closing"
    assert node.submit()["session_id"] != pool


@pytest.mark.parametrize("is_refresh", [False, True])
def test_a_submit_that_meets_the_end_of_the_pool_session_gets_another(
    postgres_url: str, tmp_path: Path, is_refresh: bool
) -> None:
    settings = make_settings(tmp_path, store={"url": postgres_url})
    with serve_node(settings) as node, ThreadPoolExecutor(1) as workers:
        view = ViewWriter(node).make()
        refresh = (f"REFRESH MATERIALIZED VIEW {view.name}", view.session)
        statement = refresh if is_refresh else ("SELECT 1", None)
        pool = node.submit()["session_id"]
        node.launcher.connect_driver(pool).hello()
        with node.database.write("test") as tx:
            assert sessions.transition(tx, pool, SessionState.CLOSING, actor="test")
            # The submit still finds the pool session, and waits for its row.
            submitted = workers.submit(node.submit, *statement)
            wait_until(lambda: waits_for_lock(node.database), what="the submit waits")
        assert submitted.result()["session_id"] != pool


def test_simultaneous_first_submits_share_one_session(postgres_url: str, tmp_path: Path) -> None:
    settings = make_settings(tmp_path, store={"url": postgres_url})
    with serve_node(settings) as node, ThreadPoolExecutor(8) as workers:
        submitted = list(workers.map(lambda _: node.submit(), range(8)))
    assert len({statement["session_id"] for statement in submitted}) == 1


def test_a_warm_driver_serves_a_pool_session(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"}, profiles={"default": {"warm": 1}})
    wait_until(lambda: node.launcher.started, what="the warm driver")
    warm = node.launcher.started[0]["name"].split("-")[1]
    driver = node.launcher.connect_driver(warm)
    driver.hello()
    assert "spark.scheduler.mode" in node.launcher.wait_for_request(warm).bootstrap.conf
    first, second = node.submit("DROP TABLE a"), node.submit("DROP TABLE b")
    assert (first["session_id"], second["session_id"]) == (warm, warm)
    assert driver.claim().isolated
    beside = driver.poll(in_flight=[first["id"]]).assignment
    assert beside is not None
    assert beside.statement_id == second["id"]


def test_an_open_poll_of_a_warm_driver_returns_a_statement_of_the_pool(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"}, profiles={"default": {"warm": 1}})
    wait_until(lambda: node.launcher.started, what="the warm driver")
    warm = node.launcher.started[0]["name"].split("-")[1]
    driver = node.launcher.connect_driver(warm)
    driver.hello()
    # The first poll at a process is short.
    driver.poll()
    with ThreadPoolExecutor(1) as pool, watch_polls(node) as answered:
        orders = pool.submit(driver.poll, wait=30)
        assert answered.wait(60)
        # The submit makes the session a pool session, and wakes the poll once.
        assert node.submit("DROP TABLE a")["session_id"] == warm
        assignment = orders.result(timeout=60).assignment
    assert assignment is not None
    assert assignment.isolated
    assert assignment.result_location is not None


def test_an_idle_pool_session_ends(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"}, sessions={"pool_idle_timeout": "100ms"})
    statement = node.submit()
    driver = node.launcher.connect_driver(statement["session_id"])
    driver.hello()
    driver.claim()
    assert driver.succeed(statement["id"]).applied
    wait_until(lambda: driver.poll().close, what="the end of the idle pool session")


def test_the_limit_on_sessions_counts_a_pool_session_once(start_node: StartNode) -> None:
    node = start_node(limits={"sessions_per_user": 1})
    pool = node.submit()["session_id"]
    assert node.submit()["session_id"] == pool
    refused = node.http.post("/api/v1/sessions", json={})
    assert refused.json()["code"] == "too_many_sessions"


def test_a_full_limit_on_sessions_refuses_a_first_submit(start_node: StartNode) -> None:
    node = start_node(limits={"sessions_per_user": 1})
    node.session()
    refused = node.http.post("/api/v1/statements", json={"statement": "SELECT 1"})
    assert refused.json()["code"] == "too_many_sessions"
