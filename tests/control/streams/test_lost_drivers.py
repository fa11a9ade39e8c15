"""Streaming queries whose driver or session ends."""

from __future__ import annotations

from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.running_query import RunningQuery
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StreamState
from headrace.model.materialized_view import NameScope
from headrace.store.tables import sessions


def test_a_query_continues_in_the_driver_after_a_lost_one(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    query = RunningQuery(node)
    query.report(StreamState.RUNNING, last_batch=7, sequence=50)
    node.launcher.report_exit(query.session, "killed by SIGKILL")
    second = node.launcher.connect_driver(query.session, launch=2)

    assert query.state == "starting"
    assert second.hello().applied
    desired = second.read_streams().queries
    assert [(each.id, each.last_batch, each.held) for each in desired] == [(query.id, 7, False)]
    query.report(StreamState.RUNNING, driver=second, run_id="run-2", sequence=1)
    assert query.state == "running"


def test_the_next_driver_waits_out_the_rest_of_a_backoff(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    query = RunningQuery(node)
    query.report(StreamState.BACKING_OFF, failures=5, delay_seconds=600.0, retry_seconds=600.0)
    node.launcher.report_exit(query.session, "killed by SIGKILL")
    second = node.launcher.connect_driver(query.session, launch=2)
    assert second.hello().applied
    (desired,) = second.read_streams().queries

    assert query.state == "backing_off"
    assert desired.failures == 5
    assert desired.retry_seconds is not None
    assert 500 < desired.retry_seconds < 600


def test_a_stop_is_confirmed_by_the_loss_of_the_driver(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    query = RunningQuery(node)
    node.act_on_stream(query.name, "stop")
    node.launcher.report_exit(query.session, "killed by SIGKILL")

    wait_until(lambda: query.state == "stopped", what="the query has stopped")
    wait_until(lambda: node.session_state(query.session) == "recovering", what="no driver runs")


def test_a_save_stream_whose_driver_was_lost_is_retried(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session, driver = node.start_session(kind="streaming")
    statement = node.submit("SAVE STREAM t TO noop", session=session)["id"]
    first = driver.claim()
    node.launcher.report_exit(session, "killed by SIGKILL")
    second = node.launcher.connect_driver(session, launch=2)
    assert second.hello().applied
    assert [query.held for query in second.read_streams().queries] == [True]
    again = second.claim()

    assert again.statement_id == statement
    assert first.query is not None
    assert again.query is not None
    assert (again.attempt, again.query.id) == (2, first.query.id)


def test_every_run_of_a_query_resolves_names_as_the_first_one(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session, driver = node.start_session(kind="streaming")
    statement = node.submit("SAVE STREAM t TO noop IDENTIFIED BY scoped", session=session)["id"]
    driver.claim()
    scope = NameScope(catalog="spark_catalog", namespace=["sales"])
    assert driver.succeed(statement, scope=scope).applied
    node.launcher.report_exit(session, "killed by SIGKILL")
    second = node.launcher.connect_driver(session, launch=2)
    assert second.hello().applied

    assert [query.spec.scope for query in second.read_streams().queries] == [scope]


def test_a_definition_whose_driver_was_lost_is_retried(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    session, driver = node.start_session(kind="streaming")
    statement = node.submit("CREATE STREAM s FROM rate", session=session)["id"]
    driver.claim()
    node.launcher.report_exit(session, "killed by SIGKILL")
    second = node.launcher.connect_driver(session, launch=2)
    assert second.hello().applied
    assert second.claim().statement_id == statement
    assert second.succeed(statement).applied

    assert node.rows("SHOW STREAMS")[0][0] == "s"


def test_a_session_with_a_live_query_is_not_idle(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "50ms"})
    query = RunningQuery(node)
    with node.database.write("test") as tx:
        # Before its first statement, the session was idle.
        own = update(sessions).where(sessions.c.id == query.session)
        tx.execute(own.values(idle_seconds=0.1))
    query.report(StreamState.BACKING_OFF, failures=1, delay_seconds=60.0, retry_seconds=60.0)
    idle, _driver = node.start_session(idle_timeout="100ms")
    wait_until(lambda: node.session_state(idle) == "closing", what="an idle session closes")

    assert node.session_state(query.session) == "running"
    node.act_on_stream(query.name, "stop")
    query.report(StreamState.STOPPED)
    wait_until(lambda: node.session_state(query.session) == "closing", what="the session closes")


def test_closing_a_session_stops_its_queries(node: InProcessNode) -> None:
    query = RunningQuery(node)
    node.http.delete(f"/api/v1/sessions/{query.session}")
    assert query.state == "stopping"
    query.driver.goodbye()

    wait_until(lambda: query.state == "stopped", what="the query has stopped")


def test_a_session_that_fails_fails_its_queries(node: InProcessNode) -> None:
    query = RunningQuery(node)
    node.fail_session(query.session, query.driver)
    shown = node.stream(query.name)

    assert (shown["state"], shown["last_error"]["code"]) == ("failed", "spark_unavailable")
