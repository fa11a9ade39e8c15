"""The warm pool: drivers that start before a session needs them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.in_process_node import (
    ARTIFACTS_ALLOWED,
    InProcessNode,
    StartNode,
    make_settings,
    serve_node,
)
from tests.support.store import get_session
from tests.support.waiting import wait_until

from headrace.control.context import NodeContext
from headrace.control.sessions.warm_pool import WarmPool
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState
from headrace.model.session import NewSession, SessionSpec
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers, warm_sessions
from headrace.store.tables import sessions as session_table


def start_warm_node(start_node: StartNode, count: int = 1) -> InProcessNode:
    return start_node(
        lease={"sweep": "50ms"},
        profiles={"default": {"warm": count}},
        conf_policy=ARTIFACTS_ALLOWED,
    )


def wait_for_launches(node: InProcessNode, count: int) -> list[str]:
    """Wait until a number of drivers have started, and return the ids of their sessions."""
    wait_until(lambda: len(node.launcher.started) >= count, what=f"{count} drivers are started")
    return [handle["name"].split("-")[1] for handle in node.launcher.started]


def test_a_new_session_gets_a_warm_driver_and_another_one_starts(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    driver = node.launcher.connect_driver(warm)
    assert driver.hello().applied
    # A warm session belongs to no user yet, so no list contains it.
    assert node.http.get("/api/v1/sessions").json()["items"] == []
    session_id = node.session(name="mine")
    assert session_id == warm
    statement = node.submit(session="mine")["id"]
    assert driver.claim().statement_id == statement
    assert driver.succeed(statement).applied
    assert wait_for_launches(node, 2)[0] == warm


def test_a_submit_without_a_session_gets_a_warm_driver(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    node.launcher.connect_driver(warm).hello()
    assert node.submit(kind="batch")["session_id"] == warm


def test_a_session_with_other_fields_gets_a_driver_of_its_own(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    node.launcher.connect_driver(warm).hello()
    requests: list[dict[str, Any]] = [
        {"conf": {"spark.executor.memory": "1g"}},
        {"catalog": "other"},
        {"database": "d"},
        {"jars": ["/a.jar"]},
        {"parallelism": 2},
    ]
    for body in requests:
        assert node.session(**body) != warm
    assert node.session(parallelism=1) == warm


def test_a_lost_warm_driver_is_replaced(start_node: StartNode) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    node.launcher.connect_driver(warm).hello()
    node.launcher.report_exit(warm, "killed by SIGKILL")
    other = wait_for_launches(node, 2)[1]
    assert other != warm
    node.launcher.connect_driver(other).hello()
    assert node.session() == other


def test_warm_drivers_that_cannot_start_are_not_started_again_and_again(
    start_node: StartNode,
) -> None:
    node = start_warm_node(start_node)
    [warm] = wait_for_launches(node, 1)
    failure = Failure(code="spark_unavailable", message="no")
    node.launcher.connect_driver(warm).goodbye(failure)
    session_id = node.session()
    node.launcher.connect_driver(session_id)
    # The launch of that session shows that the periodic tasks have run since.
    assert len(wait_for_launches(node, 2)) == 2


def test_warm_drivers_beyond_the_configured_number_are_closed(start_node: StartNode) -> None:
    node = start_warm_node(start_node, 3)
    warm = wait_for_launches(node, 3)
    for session_id in warm:
        node.launcher.connect_driver(session_id).hello()
    node.node._warm_pool._sizes["default"] = 1

    def count_closed() -> int:
        return sum(node.launcher.connect_driver(session_id).poll().close for session_id in warm)

    wait_until(lambda: count_closed() == 2)


@pytest.mark.finding("U2")
def test_an_embedded_node_keeps_a_warm_driver_for_a_while_after_unnamed_work(
    start_node: StartNode,
) -> None:
    node = start_node(as_embedded=True, lease={"sweep": "50ms"}, embedded={"linger": "1h"})
    node.start_session(name="mine")
    node.http.delete("/api/v1/sessions/mine")
    pool = node.submit()["session_id"]
    node.launcher.connect_driver(pool).hello()
    node.http.delete(f"/api/v1/sessions/{pool}")
    assert len(wait_for_launches(node, 2)) == 2
    script, driver = node.start_session()
    assert len(node.launcher.started) == 3
    node.http.delete(f"/api/v1/sessions/{script}")
    driver.goodbye()
    [*_, warm] = wait_for_launches(node, 4)
    warm_driver = node.launcher.connect_driver(warm)
    warm_driver.hello()
    # The next script gets the driver. After its end, the node starts another one.
    assert node.session() == warm
    assert len(node.launcher.started) == 4
    node.http.delete(f"/api/v1/sessions/{warm}")
    warm_driver.goodbye()
    [*_, last] = wait_for_launches(node, 5)
    last_driver = node.launcher.connect_driver(last)
    last_driver.hello()

    def let_pass(seconds: float) -> None:
        """Let all ends of sessions be so long ago, while the node has lived for longer."""
        node.node._warm_pool._start = time.monotonic() - 7200
        with node.database.write("test") as tx:
            ended = update(session_table).where(session_table.c.ended_at.is_not(None))
            tx.execute(ended.values(ended_at=clock(-seconds)))

    let_pass(3000)
    node.node._warm_pool.run()
    assert not last_driver.poll().close
    let_pass(3700)
    wait_until(lambda: last_driver.poll().close, what="the end of the linger time")


def test_a_node_closes_warm_sessions_that_a_node_with_other_settings_has_left(
    tmp_path: Path,
) -> None:
    quick = {"lease": {"sweep": "50ms"}}
    with serve_node(make_settings(tmp_path, **quick, profiles={"default": {"warm": 1}})) as first:
        [warm] = wait_for_launches(first, 1)
        first.launcher.connect_driver(warm).hello()
    with serve_node(make_settings(tmp_path, **quick)) as second:

        def state() -> SessionState | None:
            with second.database.read() as tx:
                session = sessions.get(tx, warm)
            return session and session.state

        wait_until(lambda: state() is SessionState.CLOSING, what="the end of the warm session")


def test_a_pool_that_shrinks_does_not_close_the_session_that_a_user_just_receives(
    postgres_url: str, tmp_path: Path
) -> None:
    store = Database.open(postgres_url)
    settings = make_settings(tmp_path, profiles={"default": {"warm": 0}})
    warm_pool = WarmPool(NodeContext(store, settings, "no_1", "http://node"))
    spec = SessionSpec(profile="default")
    warm = NewSession(id=new_id("se"), owner=warm_sessions.UNASSIGNED_OWNER, spec=spec, warm=True)
    try:
        with store.write("test") as tx:
            sessions.insert(tx, warm, actor="no_1")
            takeovers.claim_launch(tx, warm.id, node="no_1", seconds=60, token_hash="hash")
        with ThreadPoolExecutor(1) as pool:
            with store.write("test") as opening:
                new = NewSession(id=new_id("se"), owner="ada", spec=spec)
                assert warm_sessions.assign(opening, new) == warm.id
                # The pool reads the row before the assignment commits, and closes nothing.
                closing = pool.submit(warm_pool.run)
                wait([closing], timeout=5)
            closing.result(60)
        session = get_session(store, warm.id)
        assert (session.owner, session.state) == ("ada", SessionState.STARTING)
    finally:
        store.close()
