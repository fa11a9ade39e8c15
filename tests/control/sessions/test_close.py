"""The end of closed sessions: a session is dead only when the process of its driver is gone."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.store import set_present_since
from tests.support.waiting import wait_until

from headrace.control.sessions import takeover
from headrace.model.failure import Failure
from headrace.store.clock import clock
from headrace.store.tables import sessions

_QUICK = {"sweep": "50ms"}


def close_session(node: InProcessNode, session_id: str) -> None:
    assert node.http.delete(f"/api/v1/sessions/{session_id}").is_success


@pytest.mark.finding("B2")
def test_a_closed_session_is_dead_only_when_its_driver_process_is_gone(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "_EXIT_SECONDS", 0.2)
    node = start_node(lease=_QUICK)
    node.launcher.exits_after_goodbye = False
    states: list[str] = []
    session_id, driver = node.start_session()
    node.launcher.on_kill = lambda: states.append(node.session_state(session_id))
    close_session(node, session_id)
    assert driver.poll().close
    assert driver.goodbye().applied
    wait_until(lambda: node.session_state(session_id) == "dead")
    assert states == ["closing"]
    assert node.launcher.killed == [{"backend": "local", "name": f"headrace-{session_id}-1"}]


@pytest.mark.finding("B2")
def test_a_driver_that_does_not_end_after_the_close_of_its_session_is_killed(
    start_node: StartNode,
) -> None:
    """Two queries ignore their cancel, and the driver renews its lease for ever."""
    node = start_node(lease=_QUICK)
    session_id, driver = node.start_session(parallelism=2)
    queries = [node.submit(session=session_id)["id"] for _ in range(2)]
    driver.claim()
    driver.poll(in_flight=queries[:1])
    close_session(node, session_id)
    assert driver.renew().applied
    with node.database.write("test") as tx:
        # The node has been present during the whole time.
        set_present_since(tx, node.node.id, clock(-3600))
        own = update(sessions).where(sessions.c.id == session_id)
        tx.execute(own.values(closing_since=clock(-1800)))
    wait_until(lambda: node.session_state(session_id) == "dead")
    assert node.launcher.killed == [{"backend": "local", "name": f"headrace-{session_id}-1"}]
    assert [node.statement(query)["state"] for query in queries] == ["cancelled", "cancelled"]


@pytest.mark.finding("B2")
def test_a_driver_that_is_closed_during_its_start_is_killed_if_it_never_reports(
    start_node: StartNode,
) -> None:
    node = start_node(lease={**_QUICK, "close_grace": "100ms"})
    session_id = node.session()
    node.launcher.wait_for_request(session_id)
    close_session(node, session_id)
    wait_until(lambda: node.session_state(session_id) == "dead")
    assert node.launcher.killed == node.launcher.started


@pytest.mark.finding("B2")
def test_a_session_whose_spark_did_not_start_fails_when_its_process_is_gone(
    start_node: StartNode,
) -> None:
    node = start_node(lease=_QUICK)
    node.launcher.exits_after_goodbye = False
    session_id = node.session()
    driver = node.launcher.connect_driver(session_id)
    states: list[str] = []
    node.launcher.on_kill = lambda: states.append(node.session_state(session_id))
    driver.goodbye(Failure(code="spark_unavailable", message="Spark did not start: no memory."))
    wait_until(lambda: node.session_state(session_id) == "failed")
    assert states == ["starting"]
    error = node.describe_session(session_id)["error"]
    assert (error["code"], error["message"]) == (
        "spark_unavailable",
        "Spark did not start: no memory.",
    )


@pytest.mark.finding("B6")
def test_a_query_is_retried_after_its_driver_says_goodbye_because_of_sigterm(
    start_node: StartNode,
) -> None:
    node = start_node(lease=_QUICK)
    session_id, driver = node.start_session()
    query = node.submit(session=session_id)["id"]
    driver.claim()
    driver.goodbye(Failure(code="driver_lost", message="The driver process received SIGTERM."))
    second = node.launcher.connect_driver(session_id, launch=2)
    second.hello()
    assert second.claim().statement_id == query
    assert node.session_state(session_id) == "running"
