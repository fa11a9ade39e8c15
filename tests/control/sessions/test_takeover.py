"""Takeover: a lost driver is replaced, and its statements are retried or fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.model.session import DriverLease, Snapshot
from headrace.store.sessions import sessions, takeovers

QUICK = {"sweep": "50ms"}
SNAPSHOT = Snapshot(catalog="spark_catalog", namespace=["d"], conf={"a.b": "1"})


def close_session(node: InProcessNode, session_id: str) -> None:
    assert node.http.delete(f"/api/v1/sessions/{session_id}").is_success


def start_query_and_lose_backend(node: InProcessNode) -> tuple[str, ScriptedDriver, str]:
    """Start a query, make its backend unreachable; return the session, driver and query."""
    session_id, driver = node.start_session()
    query = node.submit(session=session_id)["id"]
    driver.claim()
    node.launcher.unreachable = True
    return session_id, driver, query


def wait_with_leases(
    node: InProcessNode, session_id: str, condition: Callable[[], object], *, epoch: int
) -> None:
    """Let the leases of an epoch expire again and again until a condition is true."""

    def is_true() -> bool:
        node.expire_lease(session_id, epoch=epoch)
        return bool(condition())

    wait_until(is_true)


def test_the_next_driver_retries_a_query(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.start_session()
    query = node.submit(session=session_id)["id"]
    command = node.submit("SHOW TABLES", session=session_id)["id"]
    assert driver.claim().attempt == 1
    driver.report_start(query)
    node.launcher.report_exit(session_id, "killed by SIGKILL")

    second = node.launcher.connect_driver(session_id, launch=2)
    assert node.session_state(session_id) == "recovering"
    assert node.statement(query)["state"] == "waiting"
    assert second.hello(lost=["view v: gone"]).applied
    assert node.describe_session(session_id)["lost"] == ["view v: gone"]
    assignment = second.claim()
    assert (assignment.statement_id, assignment.attempt) == (query, 2)
    second.succeed(query)
    assert second.claim().statement_id == command
    assert [event["to"] for event in node.events(query)] == [
        "waiting",
        "launched",
        "running",
        "waiting",
        "launched",
        "success",
    ]


def test_a_statement_that_may_have_written_data_is_not_retried(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.start_session()
    running = node.submit("INSERT INTO t VALUES (1)", session=session_id)["id"]
    waiting = node.submit("INSERT INTO t VALUES (2)", session=session_id)["id"]
    driver.claim()
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    statement = node.statement(running, wait_timeout="60s")
    assert (statement["state"], statement["error"]["code"]) == ("failed", "driver_lost")
    assert "SIGKILL" in statement["error"]["message"]
    # The next driver runs the statement that had not started.
    second = node.launcher.connect_driver(session_id, launch=2)
    second.hello()
    assert second.claim().statement_id == waiting


def test_a_query_fails_after_max_attempts(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"}, statements={"max_attempts": 2})
    session_id = node.session()
    query = node.submit(session=session_id)["id"]
    for launch in (1, 2):
        driver = node.launcher.connect_driver(session_id, launch=launch)
        driver.hello()
        assert driver.claim().attempt == launch
        node.launcher.report_exit(session_id, "exit status 137")
    statement = node.statement(query, wait_timeout="60s")
    assert (statement["state"], statement["attempts"]) == ("failed", 2)
    assert statement["error"]["code"] == "driver_lost"
    assert node.session_state(session_id) == "recovering"


@pytest.mark.parametrize("text", ["SELECT 1", "SET a = 1"])
def test_the_next_driver_restores_the_last_snapshot(start_node: StartNode, text: str) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.start_session()
    assert driver.restore().snapshot is None
    first = node.submit("SET a.b = 1", session=session_id)["id"]
    driver.claim()
    driver.succeed(first, snapshot=SNAPSHOT)
    last = node.submit(text, session=session_id)["id"]
    driver.claim()
    driver.succeed(last)
    driver.goodbye()
    node.submit(session=session_id)
    second = node.launcher.connect_driver(session_id, launch=2)
    assert second.restore().snapshot == SNAPSHOT


def test_the_next_driver_gets_pending_hook_calls_until_it_has_made_them(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.start_session()
    lost = node.submit("SET a.b = 1", session=session_id)["id"]
    driver.claim()
    driver.goodbye()
    assert node.statement(lost, wait_timeout="60s")["error"]["code"] == "driver_lost"
    node.submit(session=session_id)
    second = node.launcher.connect_driver(session_id, launch=2)
    # Until the driver says hello, the calls stay pending: the driver may be lost as well.
    for _ in range(2):
        [call] = second.restore().pending_hook_calls
        assert (call.statement_id, call.text, call.attempt) == (lost, "SET a.b = 1", 1)
    second.hello(hook_calls_made=[lost])
    assert second.restore().pending_hook_calls == []


def test_an_idle_session_gets_a_new_driver_when_a_statement_needs_it(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.start_session()
    driver.goodbye()
    wait_until(lambda: node.launcher.killed != [])
    assert node.session_state(session_id) == "recovering"
    other, _driver = node.start_session()
    assert len(node.launcher.started) == 2
    assert other != session_id
    node.submit(session=session_id)
    assert node.launcher.connect_driver(session_id, launch=2).hello().applied


def test_a_session_without_a_driver_is_closed_at_once(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.start_session()
    driver.goodbye()
    wait_until(lambda: node.launcher.killed != [])
    wait_until(lambda: node.describe_session(session_id)["driver"] is None)
    closed = node.http.delete(f"/api/v1/sessions/{session_id}").json()
    assert closed["state"] == "dead"


def test_a_closing_session_ends_when_its_driver_is_lost(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.start_session()
    running = node.submit(session=session_id)["id"]
    driver.claim()
    node.http.delete(f"/api/v1/sessions/{session_id}")
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    assert node.statement(running, wait_timeout="60s")["state"] == "cancelled"
    wait_until(lambda: node.session_state(session_id) == "dead")


def test_a_session_that_is_closed_while_its_driver_is_killed_ends(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.start_session()
    query = node.submit(session=session_id)["id"]
    driver.claim()
    node.launcher.on_kill = lambda: close_session(node, session_id)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    assert node.statement(query, wait_timeout="60s")["state"] == "cancelled"
    wait_until(lambda: node.session_state(session_id) == "dead")


def test_a_session_with_tables_in_memory_fails_when_its_driver_is_lost(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id = node.session()
    driver = node.launcher.connect_driver(session_id)
    driver.hello(keeps_tables=False)
    running = node.submit(session=session_id)["id"]
    waiting = node.submit(session=session_id)["id"]
    driver.claim()
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    assert node.statement(running, wait_timeout="60s")["error"]["code"] == "driver_lost"
    assert node.statement(waiting)["error"]["code"] == "session_failed"
    failed = node.describe_session(session_id)
    assert (failed["state"], failed["error"]["code"]) == ("failed", "driver_lost")
    assert "in the memory" in failed["error"]["message"]


def test_a_session_fails_after_three_starts_of_its_driver(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    statement = node.submit()
    session_id = statement["session_id"]
    for launch in (1, 2, 3):
        node.launcher.wait_for_request(session_id, launch=launch)
        node.launcher.report_exit(session_id, "exit status 1")
    failed = node.statement(statement["id"], wait_timeout="60s")
    assert (failed["state"], failed["error"]["code"]) == ("failed", "session_failed")
    assert "3 attempts" in failed["error"]["message"]
    assert "exit status 1" in failed["error"]["message"]
    assert len(node.launcher.started) == 3
    assert node.describe_session(session_id)["error"]["code"] == "launch_failed"


def test_the_count_of_starts_is_reset_when_a_driver_says_hello(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id = node.session()
    for launch in range(1, 6):
        node.submit("SHOW TABLES", session=session_id)
        driver = node.launcher.connect_driver(session_id, launch=launch)
        assert driver.hello().applied
        driver.claim()
        node.launcher.report_exit(session_id, "exit status 1")
    node.submit("SHOW TABLES", session=session_id)
    assert node.launcher.connect_driver(session_id, launch=6).hello().applied


def test_a_batch_statement_that_cannot_be_retried_ends_its_session(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    statement = node.submit("INSERT INTO t VALUES (1)", kind="batch")
    driver = node.launcher.connect_driver(statement["session_id"])
    driver.hello()
    driver.claim()
    node.launcher.report_exit(statement["session_id"], "killed by SIGKILL")
    assert node.statement(statement["id"], wait_timeout="60s")["state"] == "failed"
    wait_until(lambda: node.session_state(statement["session_id"]) == "dead")


def test_a_batch_query_is_retried_in_its_session(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    statement = node.submit("SELECT 1", kind="batch")
    node.launcher.connect_driver(statement["session_id"]).hello()
    first = node.launcher.connect_driver(statement["session_id"])
    first.claim()
    node.launcher.report_exit(statement["session_id"], "killed by SIGKILL")
    second = node.launcher.connect_driver(statement["session_id"], launch=2)
    second.hello()
    second.claim()
    second.succeed(statement["id"])
    assert second.poll().close
    second.goodbye()
    wait_until(lambda: node.session_state(statement["session_id"]) == "dead")


def test_an_unreachable_backend_does_not_end_a_driver(start_node: StartNode) -> None:
    """The driver may still run, so the node must not start another one."""
    node = start_node(lease=QUICK)
    session_id, driver, query = start_query_and_lose_backend(node)
    calls = node.launcher.call_count + 2
    wait_with_leases(node, session_id, lambda: node.launcher.call_count >= calls, epoch=1)
    assert node.session_state(session_id) == "running"
    assert driver.renew().applied
    assert node.statement(query)["state"] == "launched"
    node.launcher.unreachable = False
    wait_with_leases(node, session_id, lambda: node.launcher.killed, epoch=1)
    node.launcher.connect_driver(session_id, launch=2)
    assert len(node.launcher.killed) == 1


def test_the_takeover_waits_until_the_lost_driver_is_killed(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, _driver, query = start_query_and_lose_backend(node)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    calls = node.launcher.call_count + 2
    wait_with_leases(node, session_id, lambda: node.launcher.call_count >= calls, epoch=2)
    assert node.session_state(session_id) == "recovering"
    assert node.statement(query)["state"] == "launched"
    assert len(node.launcher.started) == 1
    node.launcher.unreachable = False
    wait_with_leases(node, session_id, lambda: node.launcher.killed, epoch=2)
    second = node.launcher.connect_driver(session_id, launch=2)
    second.hello()
    assert second.claim().statement_id == query


def test_a_start_in_doubt_is_repeated_if_the_backend_has_no_such_driver(
    start_node: StartNode,
) -> None:
    node = start_node(lease=QUICK)
    node.launcher.unreachable = True
    session_id = node.session()
    wait_until(lambda: node.launcher.call_count >= 2)
    node.launcher.unreachable = False
    wait_with_leases(node, session_id, lambda: node.launcher.started, epoch=2)
    driver = node.launcher.connect_driver(session_id, launch=1)
    assert driver.bootstrap.epoch == 3
    assert driver.hello().applied


def test_a_start_that_exceeds_start_timeout_fails_with_the_message_of_the_backend(
    start_node: StartNode,
) -> None:
    node = start_node(lease=QUICK, profiles={"default": {"start_timeout": "300ms"}})
    submitted = node.submit()
    node.launcher.wait_for_request(submitted["session_id"])
    node.let_judge()
    statement = node.statement(submitted["id"], wait_timeout="60s")
    assert statement["error"]["code"] == "session_failed"
    failed = node.describe_session(statement["session_id"])
    assert (failed["state"], failed["error"]["code"]) == ("failed", "launch_failed")
    assert "did not report within its start_timeout" in failed["error"]["message"]
    assert "it runs" in failed["error"]["message"]
    # The node kills the driver, and does not start a second one.
    assert len(node.launcher.started) == len(node.launcher.killed) == 1


def test_a_session_that_is_closed_during_a_takeover_ends(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, _driver, query = start_query_and_lose_backend(node)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    wait_until(lambda: node.session_state(session_id) == "recovering")
    closed = node.http.delete(f"/api/v1/sessions/{session_id}").json()
    assert closed["state"] == "closing"
    node.launcher.unreachable = False
    wait_with_leases(node, session_id, lambda: node.statement(query)["ended_at"], epoch=2)
    assert node.statement(query)["state"] == "cancelled"
    wait_until(lambda: node.session_state(session_id) == "dead")
    assert len(node.launcher.started) == 1


@pytest.mark.parametrize("started", [True, False])
def test_a_launch_that_a_stopped_node_left_is_adopted_or_repeated(
    tmp_path: Path, started: bool
) -> None:
    """The node claimed the launch and perhaps started it, but did not store its handle."""
    settings = make_settings(tmp_path / "home", lease={"sweep": "50ms"})
    launcher = ScriptedLauncher()
    with serve_node(settings, launcher) as node:
        node.node._tasks.stop()
        session_id = node.session()
        with node.database.write("test") as tx:
            claim = {"node": node.node.id, "seconds": 600.0, "token_hash": "h"}
            assert takeovers.claim_launch(tx, session_id, **claim) == 1
        if started:
            launcher.started.append({"backend": "local", "name": f"headrace-{session_id}-1"})
    with serve_node(settings, launcher) as node:
        if started:

            def read_handle() -> dict[str, Any] | None:
                with node.database.read() as tx:
                    record = sessions.get(tx, session_id)
                return record.handle if record else None

            wait_until(lambda: read_handle() is not None, what="the handle is stored")
            assert node.describe_session(session_id)["epoch"] == 1
        else:
            assert launcher.wait_for_request(session_id).bootstrap.epoch == 3
            wait_until(lambda: launcher.started, what="the start returns")
        assert len(launcher.started) == 1


def test_a_driver_that_starts_after_it_was_fenced_is_killed(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    do_nothing = node.launcher.on_start

    def fence(name: str) -> None:
        session_id = name.split("-")[1]
        with node.database.write("test") as tx:
            takeovers.fence(tx, DriverLease(session_id, 1), actor="no_2", reason="late", seconds=60)
        node.launcher.on_start = do_nothing

    node.launcher.on_start = fence
    node.session()
    wait_until(lambda: node.launcher.killed != [], what="the driver is killed")
    assert node.launcher.killed == node.launcher.started
