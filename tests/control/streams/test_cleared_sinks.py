"""What a lost driver has staged in the sink of a query is removed after the end of the query."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.running_query import ERROR, RunningQuery
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StatementState, StreamState
from headrace.model.messages import CarryOut, IntentError, Intents, SinkIntent
from headrace.store.catalog_intents import MAX_ATTEMPTS

JDBC = "OPTIONS ('url' = 'jdbc:postgresql://db/x', 'dbtable' = 'public.t')"
QUICK = {"sweep": "50ms"}


def clear_sinks(
    driver: ScriptedDriver, *, done: Sequence[str] = (), failed: Sequence[str] = ()
) -> list[SinkIntent]:
    """Report sinks that are cleared, or that could not be cleared; claim others."""
    errors = [IntentError(id=intent, message="no such host") for intent in failed]
    message = CarryOut(identities=[], clears_sinks=True, done=list(done), failed=errors)
    return driver._call("carry_out", message, Intents).sinks


def start_jdbc(node: InProcessNode) -> RunningQuery:
    return RunningQuery(node, sink="jdbc", options=JDBC)


def lose_driver(node: InProcessNode, query: RunningQuery) -> None:
    node.launcher.report_exit(query.session, "killed by SIGKILL")
    wait_until(lambda: node.session_state(query.session) == "recovering", what="the loss")


def end_by_stop_after_loss(node: InProcessNode, query: RunningQuery) -> None:
    query.report(StreamState.BACKING_OFF, failures=1, delay_seconds=60.0, retry_seconds=60.0)
    node.act_on_stream(query.name, "pause")
    query.report(StreamState.STOPPED, failures=1)
    lose_driver(node, query)
    node.act_on_stream(query.name, "stop")


def end_by_loss_after_stop(node: InProcessNode, query: RunningQuery) -> None:
    node.act_on_stream(query.name, "stop")
    node.launcher.report_exit(query.session, "killed by SIGKILL")


def end_by_close_after_loss(node: InProcessNode, query: RunningQuery) -> None:
    node.http.delete(f"/api/v1/sessions/{query.session}")
    node.launcher.report_exit(query.session, "killed by SIGKILL")


def end_by_failure(node: InProcessNode, query: RunningQuery) -> None:
    query.report(StreamState.FAILED, failures=3, error=ERROR)


def end_by_stop_while_backing_off(node: InProcessNode, query: RunningQuery) -> None:
    query.report(StreamState.BACKING_OFF, failures=1, delay_seconds=60.0, retry_seconds=60.0)
    node.act_on_stream(query.name, "stop")
    query.report(StreamState.STOPPED, failures=1)


ENDS = [
    end_by_stop_after_loss,
    end_by_loss_after_stop,
    end_by_close_after_loss,
    end_by_failure,
    end_by_stop_while_backing_off,
]


@pytest.mark.parametrize("end", ENDS)
def test_another_driver_of_the_owner_clears_the_sink_of_an_ended_query(
    start_node: StartNode, end: object
) -> None:
    assert callable(end)
    node = start_node(lease=QUICK)
    query = start_jdbc(node)
    end(node, query)
    wait_until(lambda: query.state in {"stopped", "failed"}, what="the query has ended")
    _session, other = node.start_session()
    intents = clear_sinks(other)

    assert [(each.query_id, each.spec.sink) for each in intents] == [(query.id, "jdbc")]
    assert clear_sinks(other, done=[intents[0].id]) == []
    assert node.events(intents[0].id)[-1]["to"] == "done"


def test_nothing_is_to_be_cleared_after_a_clean_end_or_in_another_sink(
    start_node: StartNode,
) -> None:
    node = start_node(lease=QUICK)
    query, other = start_jdbc(node), RunningQuery(node)
    node.act_on_stream(query.name, "stop")
    query.report(StreamState.STOPPED)
    end_by_failure(node, other)

    assert clear_sinks(query.driver) == []


def test_nothing_is_to_be_cleared_for_a_query_whose_start_was_refused(
    start_node: StartNode,
) -> None:
    node = start_node()
    session, driver = node.start_session(kind="streaming")
    statement = node.submit(f"SAVE STREAM t TO jdbc IDENTIFIED BY refused {JDBC}", session=session)
    driver.claim()
    driver.report_end(statement["id"], StatementState.FAILED, failure=ERROR)

    assert clear_sinks(driver) == []


def test_a_sink_that_cannot_be_reached_is_tried_again_and_reported_at_last(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.catalog_intents._RETRY_SECONDS", 0.0)
    node = start_node(lease=QUICK)
    query = start_jdbc(node)
    end_by_failure(node, query)
    attempts, failed = 0, ""
    while intents := clear_sinks(query.driver, failed=[failed] if failed else []):
        attempts, failed = attempts + 1, intents[0].id

    assert attempts == MAX_ATTEMPTS
    assert node.events(failed)[-1]["to"] == "failed"
    assert node.events(failed)[-1]["detail"] == {"error": "no such host"}
