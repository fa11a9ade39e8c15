"""A driver is lost: what becomes of its session and its statements, by the API and the link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode, StartNode, serve_node, settings_for
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.model.session import DriverLease
from headrace.model.snapshot import Snapshot
from headrace.store import sessions, takeovers

QUICK = {"duration": "1s", "sweep": "50ms"}
SNAPSHOT = Snapshot(catalog="spark_catalog", namespace=["d"], conf={"a.b": "1"})


def session(node: InProcessNode, session_id: str) -> dict[str, Any]:
    body: dict[str, Any] = node.http.get(f"/api/v1/sessions/{session_id}").json()
    return body


def close(node: InProcessNode, session_id: str) -> None:
    assert node.http.delete(f"/api/v1/sessions/{session_id}").is_success


def states(node: InProcessNode, entity_id: str) -> list[str]:
    page = node.http.get("/api/v1/events", params={"entity_id": entity_id}).json()
    return [one["to"] for one in page["items"]]


def out_of_reach(node: InProcessNode) -> tuple[str, ScriptedDriver, str]:
    """A session, its driver, whose backend does not answer, and a query in its hands."""
    session_id, driver = node.driven_session()
    query = node.submit(session=session_id)["id"]
    driver.claim()
    node.launcher.unreachable = True
    return session_id, driver, query


def test_a_query_is_run_again_by_the_next_driver(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.driven_session()
    query = node.submit(session=session_id)["id"]
    command = node.submit("SHOW TABLES", session=session_id)["id"]
    assert driver.claim().attempt == 1
    driver.report_start(query)
    node.launcher.report_exit(session_id, "killed by SIGKILL")

    second = node.launcher.connect_driver(session_id, launch=2)
    assert session(node, session_id)["state"] == "recovering"
    assert node.statement(query)["state"] == "waiting"
    assert second.hello(lost=["view v: gone"]).applied
    assert session(node, session_id)["lost"] == ["view v: gone"]
    assignment = second.claim()
    assert (assignment.statement_id, assignment.attempt) == (query, 2)
    second.succeed(query)
    assert second.claim().statement_id == command
    assert states(node, query) == [
        "waiting",
        "launched",
        "running",
        "waiting",
        "launched",
        "success",
    ]


def test_what_may_have_changed_something_is_not_run_again(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.driven_session()
    running = node.submit("INSERT INTO t VALUES (1)", session=session_id)["id"]
    waiting = node.submit("INSERT INTO t VALUES (2)", session=session_id)["id"]
    driver.claim()
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    statement = node.statement(running, wait_timeout="20s")
    assert (statement["state"], statement["error"]["code"]) == ("failed", "driver_lost")
    assert "SIGKILL" in statement["error"]["message"]
    # What had not begun is run, once, by the next.
    second = node.launcher.connect_driver(session_id, launch=2)
    second.hello()
    assert second.claim().statement_id == waiting


def test_a_query_that_ends_every_driver_is_tried_no_more(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"}, statements={"max_attempts": 2})
    session_id = node.session()
    query = node.submit(session=session_id)["id"]
    for launch in (1, 2):
        driver = node.launcher.connect_driver(session_id, launch=launch)
        driver.hello()
        assert driver.claim().attempt == launch
        node.launcher.report_exit(session_id, "exit status 137")
    statement = node.statement(query, wait_timeout="20s")
    assert (statement["state"], statement["attempts"]) == ("failed", 2)
    assert statement["error"]["code"] == "driver_lost"
    assert session(node, session_id)["state"] == "recovering"


@pytest.mark.parametrize("ended", ["SELECT 1", "SET a = 1"])
def test_the_next_driver_gets_the_last_snapshot(start_node: StartNode, ended: str) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.driven_session()
    assert driver.restore().snapshot is None
    one = node.submit("SET a.b = 1", session=session_id)["id"]
    driver.claim()
    driver.succeed(one, snapshot=SNAPSHOT)
    other = node.submit(ended, session=session_id)["id"]
    driver.claim()
    driver.succeed(other)
    driver.goodbye()
    node.submit(session=session_id)
    second = node.launcher.connect_driver(session_id, launch=2)
    assert second.restore().snapshot == SNAPSHOT


def test_the_next_driver_is_told_once_of_whom_to_tell(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.driven_session()
    lost = node.submit("SET a.b = 1", session=session_id)["id"]
    driver.claim()
    driver.goodbye()
    assert node.statement(lost, wait_timeout="20s")["error"]["code"] == "driver_lost"
    node.submit(session=session_id)
    second = node.launcher.connect_driver(session_id, launch=2)
    # Until it says hello, it may be lost itself.
    for _twice in range(2):
        [one] = second.restore().pending_hook_calls
        assert (one.statement_id, one.text, one.attempt) == (lost, "SET a.b = 1", 1)
    second.hello(hook_calls_made=[lost])
    assert second.restore().pending_hook_calls == []


def test_an_idle_session_is_rebuilt_when_it_is_needed(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.driven_session()
    driver.goodbye()
    wait_until(lambda: node.launcher.killed != [])
    assert session(node, session_id)["state"] == "recovering"
    other, _driver = node.driven_session()
    assert len(node.launcher.started) == 2
    assert other != session_id
    node.submit(session=session_id)
    assert node.launcher.connect_driver(session_id, launch=2).hello().applied


def test_a_session_without_a_driver_is_closed_at_once(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.driven_session()
    driver.goodbye()
    wait_until(lambda: node.launcher.killed != [])
    wait_until(lambda: session(node, session_id)["driver"] is None)
    closed = node.http.delete(f"/api/v1/sessions/{session_id}").json()
    assert closed["state"] == "dead"


def test_a_closing_session_whose_driver_is_lost_is_dead(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.driven_session()
    running = node.submit(session=session_id)["id"]
    driver.claim()
    node.http.delete(f"/api/v1/sessions/{session_id}")
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    assert node.statement(running, wait_timeout="20s")["state"] == "cancelled"
    wait_until(lambda: session(node, session_id)["state"] == "dead")


def test_a_session_that_is_closed_while_its_driver_is_ended_is_dead(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id, driver = node.driven_session()
    query = node.submit(session=session_id)["id"]
    driver.claim()
    node.launcher.on_kill = lambda: close(node, session_id)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    assert node.statement(query, wait_timeout="20s")["state"] == "cancelled"
    wait_until(lambda: session(node, session_id)["state"] == "dead")


def test_tables_in_memory_end_with_their_driver(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session_id = node.session()
    driver = node.launcher.connect_driver(session_id)
    driver.hello(keeps_tables=False)
    running = node.submit(session=session_id)["id"]
    waiting = node.submit(session=session_id)["id"]
    driver.claim()
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    assert node.statement(running, wait_timeout="20s")["error"]["code"] == "driver_lost"
    assert node.statement(waiting)["error"]["code"] == "session_failed"
    failed = session(node, session_id)
    assert (failed["state"], failed["error"]["code"]) == ("failed", "driver_lost")
    assert "in the memory" in failed["error"]["message"]


def test_a_driver_that_dies_at_its_start_is_started_three_times(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    statement = node.submit()
    session_id = statement["session_id"]
    for launch in (1, 2, 3):
        node.launcher.wait_for_request(session_id, launch=launch)
        node.launcher.report_exit(session_id, "exit status 1")
    failed = node.statement(statement["id"], wait_timeout="20s")
    assert (failed["state"], failed["error"]["code"]) == ("failed", "session_failed")
    assert "3 attempts" in failed["error"]["message"]
    assert "exit status 1" in failed["error"]["message"]
    assert len(node.launcher.started) == 3
    assert session(node, session_id)["error"]["code"] == "launch_failed"


def test_starts_are_counted_anew_once_a_driver_was_there(start_node: StartNode) -> None:
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


def test_a_batch_statement_that_cannot_be_run_again_ends_its_session(
    start_node: StartNode,
) -> None:
    node = start_node(lease={"sweep": "50ms"})
    statement = node.submit("INSERT INTO t VALUES (1)", kind="batch")
    driver = node.launcher.connect_driver(statement["session_id"])
    driver.hello()
    driver.claim()
    node.launcher.report_exit(statement["session_id"], "killed by SIGKILL")
    assert node.statement(statement["id"], wait_timeout="20s")["state"] == "failed"
    wait_until(lambda: session(node, statement["session_id"])["state"] == "dead")


def test_a_batch_query_is_run_again_in_its_session(start_node: StartNode) -> None:
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
    assert session(node, statement["session_id"])["state"] == "dead"


def test_a_backend_that_is_out_of_reach_ends_nothing(start_node: StartNode) -> None:
    """Nobody can tell whether the driver is gone: it may come back, and nothing else is started."""
    node = start_node(lease=QUICK)
    session_id, driver, query = out_of_reach(node)
    calls_before = node.launcher.call_count
    wait_until(lambda: node.launcher.call_count >= calls_before + 2)
    assert session(node, session_id)["state"] == "running"
    assert driver.renew().applied
    assert node.statement(query)["state"] == "launched"
    node.launcher.unreachable = False
    node.launcher.connect_driver(session_id, launch=2)
    assert len(node.launcher.killed) == 1


def test_a_lost_driver_that_cannot_be_ended_yet_holds_everything_up(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, _driver, query = out_of_reach(node)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    calls_before = node.launcher.call_count
    wait_until(lambda: node.launcher.call_count >= calls_before + 2)
    assert session(node, session_id)["state"] == "recovering"
    assert node.statement(query)["state"] == "launched"
    assert len(node.launcher.started) == 1
    node.launcher.unreachable = False
    second = node.launcher.connect_driver(session_id, launch=2)
    second.hello()
    assert second.claim().statement_id == query


def test_a_start_in_doubt_is_looked_for_and_made_again(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    node.launcher.unreachable = True
    session_id = node.session()
    wait_until(lambda: node.launcher.call_count >= 2)
    node.launcher.unreachable = False
    driver = node.launcher.connect_driver(session_id, launch=1)
    assert driver.bootstrap.epoch == 3
    assert driver.hello().applied


def test_a_start_that_takes_too_long_fails_in_the_backends_words(start_node: StartNode) -> None:
    node = start_node(lease=QUICK, profiles={"default": {"start_timeout": "300ms"}})
    statement = node.submit(wait_timeout="20s")
    assert statement["error"]["code"] == "session_failed"
    failed = session(node, statement["session_id"])
    assert (failed["state"], failed["error"]["code"]) == ("failed", "launch_failed")
    assert "did not report within its start_timeout" in failed["error"]["message"]
    assert "it runs" in failed["error"]["message"]
    # It had its time: no second one is tried, and the first is gone.
    assert len(node.launcher.started) == len(node.launcher.killed) == 1


def test_a_session_closed_during_a_takeover_is_dead(start_node: StartNode) -> None:
    node = start_node(lease=QUICK)
    session_id, _driver, query = out_of_reach(node)
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    wait_until(lambda: session(node, session_id)["state"] == "recovering")
    closed = node.http.delete(f"/api/v1/sessions/{session_id}").json()
    assert closed["state"] == "closing"
    node.launcher.unreachable = False
    assert node.statement(query, wait_timeout="20s")["state"] == "cancelled"
    wait_until(lambda: session(node, session_id)["state"] == "dead")
    assert len(node.launcher.started) == 1


@pytest.mark.parametrize("started", [True, False])
def test_a_launch_that_the_nodes_end_interrupts_is_adopted_or_made_again(
    tmp_path: Path, started: bool
) -> None:
    """Claimed, and perhaps started, but nobody had the time to keep its handle."""
    settings = settings_for(tmp_path / "home", lease={"sweep": "50ms"})
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

            def handle() -> dict[str, Any] | None:
                with node.database.read() as tx:
                    found = sessions.get(tx, session_id)
                return found.handle if found else None

            wait_until(lambda: handle() is not None, what="its handle is kept")
            assert session(node, session_id)["epoch"] == 1
        else:
            assert launcher.wait_for_request(session_id).bootstrap.epoch == 3
        assert len(launcher.started) == 1


def test_a_start_that_comes_too_late_is_ended(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    superseding = node.launcher.on_start

    def superseded(name: str) -> None:
        session_id = name.split("-")[1]
        with node.database.write("test") as tx:
            takeovers.fence(tx, DriverLease(session_id, 1), actor="no_2", reason="late", seconds=60)
        node.launcher.on_start = superseding

    node.launcher.on_start = superseded
    node.session()
    wait_until(lambda: node.launcher.killed != [], what="it is ended")
    assert node.launcher.killed == node.launcher.started
