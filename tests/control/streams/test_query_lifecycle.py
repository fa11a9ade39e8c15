"""The lifecycle of streaming queries, with drivers whose reports a test writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode
from tests.support.running_query import ERROR, RunningQuery
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StatementState, StreamState
from headrace.model.stream_query import EndReason, QueryProgress, QueryReport, Wanted, describe_end


def test_save_stream_starts_a_query_that_any_node_can_show(node: InProcessNode) -> None:
    query = RunningQuery(node)
    shown = node.stream(query.name)

    assert shown["state"] == "running"
    assert shown["run_id"] == "run-1"
    assert shown["statement_id"] == query.statement
    assert shown["started_at"] is not None
    assert node.stream(f"adhoc.{query.name}")["id"] == query.id
    assert query.transitions() == [(None, "starting"), ("starting", "running")]


def test_the_assignment_of_a_save_stream_holds_the_complete_query(node: InProcessNode) -> None:
    session, driver = node.start_session(kind="streaming")
    node.submit("SAVE STREAM t TO json IDENTIFIED BY complete", session=session)
    query = driver.claim().query
    assert query is not None

    assert (query.name, query.job_id, query.wanted) == (
        "complete",
        f"adhoc-{LOCAL_OWNER}",
        "running",
    )
    assert query.spec.sink == "json"
    assert query.spec.path is not None
    assert query.spec.path.endswith(f"/streams/adhoc-{LOCAL_OWNER}/complete")
    assert query.spec.checkpoint is not None
    assert query.spec.checkpoint.endswith(f"/checkpoints/adhoc-{LOCAL_OWNER}/complete")


def test_a_stop_reaches_the_driver_and_ends_the_query_with_its_report(node: InProcessNode) -> None:
    query = RunningQuery(node)

    assert node.act_on_stream(query.name, "stop")["state"] == "stopping"
    desired = query.desired()
    assert desired is not None
    assert desired.wanted is Wanted.STOPPED
    query.report(StreamState.STOPPED)

    assert query.state == "stopped"
    assert query.desired() is None


def test_a_report_about_an_earlier_generation_changes_nothing(node: InProcessNode) -> None:
    query = RunningQuery(node)
    node.act_on_stream(query.name, "stop")

    query.report(StreamState.STOPPED, generation=1)
    assert query.state == "stopping"
    query.report(StreamState.RUNNING)
    assert query.state == "stopping"


@pytest.mark.parametrize("sequence", [None, 7])
@pytest.mark.parametrize("state", [StreamState.STOPPED, StreamState.RUNNING, StreamState.FAILED])
def test_a_paused_query_stays_paused_when_its_driver_repeats_its_last_report(
    node: InProcessNode, state: StreamState, sequence: int | None
) -> None:
    query = RunningQuery(node)
    node.act_on_stream(query.name, "pause")
    query.report(StreamState.STOPPED, sequence=sequence)
    before = (node.stream(query.id), query.transitions())
    for number in (sequence, sequence, sequence and sequence + 1):
        query.report(state, sequence=number)

    assert query.state == "paused"
    assert (node.stream(query.id), query.transitions()) == before


@pytest.mark.parametrize("late", [1, 2, 3, 4])
def test_a_late_report_changes_nothing(node: InProcessNode, late: int) -> None:
    """The driver has sent it again to another node, because the first one did not answer."""
    query = RunningQuery(node)
    failed = {"failures": 1, "delay_seconds": 60.0, "retry_seconds": 60.0}
    reports: list[tuple[StreamState, dict[str, Any]]] = [
        (StreamState.STARTING, {"run_id": None}),
        (StreamState.RUNNING, {"last_batch": 4, "progress": [_progress(4)]}),
        (StreamState.RUNNING, {"last_batch": 104, "progress": [_progress(104)]}),
        (StreamState.BACKING_OFF, {"last_batch": 104, **failed}),
    ]
    for sequence, (state, facts) in enumerate(reports, start=1):
        query.report(state, sequence=sequence, **facts)
    before = (_without_countdown(node.stream(query.id)), query.transitions())
    state, facts = reports[late - 1]
    query.report(state, sequence=late, **facts)

    assert query.state == "backing_off"
    assert (_without_countdown(node.stream(query.id)), query.transitions()) == before


def _without_countdown(stream: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stream.items() if key != "reason"}


def test_only_the_first_report_about_a_query_in_one_message_counts(node: InProcessNode) -> None:
    query = RunningQuery(node)
    reports = [
        QueryReport(id=query.id, generation=1, state=state, run_id=state)
        for state in (StreamState.STOPPED, StreamState.RUNNING)
    ]
    query.driver.renew(queries=reports)

    assert query.state == "stopped"


def test_a_paused_query_starts_again_when_it_is_resumed(node: InProcessNode) -> None:
    query = RunningQuery(node)
    node.act_on_stream(query.name, "pause")
    query.report(StreamState.STOPPED)
    assert query.state == "paused"
    assert query.desired() is None

    assert node.act_on_stream(query.name, "resume")["state"] == "starting"
    desired = query.desired()
    assert desired is not None
    assert (desired.wanted, desired.held) == (Wanted.RUNNING, False)
    query.report(StreamState.RUNNING, run_id="run-2")
    assert query.state == "running"


def test_a_pause_can_be_taken_back_before_the_query_has_stopped(node: InProcessNode) -> None:
    query = RunningQuery(node)
    node.act_on_stream(query.name, "pause")
    node.act_on_stream(query.name, "resume")
    query.report(StreamState.STOPPED)

    assert query.state == "starting"
    assert query.transitions()[-2:] == [("stopping", "paused"), ("paused", "starting")]


def test_a_query_that_runs_again_before_its_pause_was_reported_is_running(
    node: InProcessNode,
) -> None:
    query = RunningQuery(node)
    node.act_on_stream(query.name, "pause")
    node.act_on_stream(query.name, "resume")
    query.report(StreamState.RUNNING, run_id="run-2")

    assert query.state == "running"
    assert [target for _source, target in query.transitions()][-4:] == [
        "stopping",
        "paused",
        "starting",
        "running",
    ]


def test_a_stop_of_a_paused_query_ends_it_at_once(node: InProcessNode) -> None:
    query = RunningQuery(node)
    node.act_on_stream(query.name, "pause")
    query.report(StreamState.STOPPED)

    assert node.act_on_stream(query.name, "stop")["state"] == "stopped"


def test_failures_and_the_next_start_are_kept_in_the_store(node: InProcessNode) -> None:
    query = RunningQuery(node)
    query.report(
        StreamState.BACKING_OFF, failures=3, delay_seconds=8.0, retry_seconds=7.5, error=ERROR
    )
    shown = node.stream(query.name)

    assert shown["state"] == "backing_off"
    assert shown["failures"] == 3
    assert shown["retry_at"] is not None
    assert shown["last_error"]["message"] == "division by zero"
    event = node.events(query.id)[-1]
    assert (event["detail"]["failures"], event["detail"]["delay_seconds"]) == (3, 8.0)


def test_a_further_failure_between_two_reports_has_an_event_of_its_own(node: InProcessNode) -> None:
    query = RunningQuery(node)
    for failures in (1, 2):
        query.report(
            StreamState.BACKING_OFF, failures=failures, delay_seconds=1.0, retry_seconds=1.0
        )

    assert query.transitions()[-2:] == [("backing_off", "starting"), ("starting", "backing_off")]


def test_a_retry_ends_the_backoff(node: InProcessNode) -> None:
    query = RunningQuery(node)
    query.report(StreamState.BACKING_OFF, failures=1, delay_seconds=60.0, retry_seconds=60.0)

    shown = node.act_on_stream(query.name, "retry")
    assert (shown["state"], shown["retry_at"]) == ("starting", None)
    assert node.http.post(f"/api/v1/streams/{query.name}/retry").status_code == 409


def test_a_stop_takes_precedence_over_a_pending_restart(node: InProcessNode) -> None:
    query = RunningQuery(node)
    query.report(StreamState.BACKING_OFF, failures=1, delay_seconds=60.0, retry_seconds=60.0)
    node.act_on_stream(query.name, "stop")
    query.report(StreamState.STOPPED, failures=1)

    assert query.state == "stopped"


def test_a_restart_begins_a_new_attempt_on_the_same_checkpoint(node: InProcessNode) -> None:
    query = RunningQuery(node)
    node.act_on_stream(query.name, "restart")
    query.report(StreamState.STOPPED, last_batch=41)
    successor = node.stream(query.name)

    assert query.state == "stopped"
    assert (successor["attempt"], successor["previous_id"]) == (2, query.id)
    assert (successor["state"], successor["last_batch"]) == ("starting", 41)
    assert successor["checkpoint"] == node.stream(query.id)["checkpoint"]
    assert [each.id for each in query.driver.read_streams().queries] == [successor["id"]]


def test_a_query_whose_session_has_ended_restarts_in_a_new_session(node: InProcessNode) -> None:
    query = RunningQuery(node)
    query.report(StreamState.FAILED, error=ERROR)
    node.http.delete(f"/api/v1/sessions/{query.session}")
    query.driver.goodbye()
    wait_until(lambda: node.session_state(query.session) == "dead", what="the session ends")

    successor = node.act_on_stream(query.name, "restart")
    assert successor["session_id"] != query.session
    assert node.describe_session(successor["session_id"])["kind"] == "streaming"
    driver = node.launcher.connect_driver(successor["session_id"])
    assert driver.hello().applied
    assert [each.id for each in driver.read_streams().queries] == [successor["id"]]


@pytest.mark.parametrize(
    ("claimed", "shown"),
    [
        (EndReason.SOURCES_ENDED, EndReason.SOURCES_ENDED),
        (EndReason.STOPPED, EndReason.NOT_REPORTED),
        (EndReason.SESSION_CLOSED, EndReason.NOT_REPORTED),
        (None, EndReason.NOT_REPORTED),
    ],
)
def test_a_query_that_ends_by_itself_has_the_reason_of_its_driver_if_a_driver_can_know_it(
    node: InProcessNode, claimed: EndReason | None, shown: EndReason
) -> None:
    query = RunningQuery(node)
    query.report(StreamState.STOPPED, last_batch=3, reason=claimed)
    event, body = node.events(query.id)[-1], node.stream(query.id)

    assert (body["state"], body["last_batch"], body["end_reason"]) == ("stopped", 3, shown)
    assert event["detail"] == describe_end(shown)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda node, query: node.act_on_stream(query.name, "stop"), EndReason.STOPPED),
        (lambda node, query: node.act_on_stream(query.name, "restart"), EndReason.RESTARTED),
        (
            lambda node, query: node.http.delete(f"/api/v1/sessions/{query.session}"),
            EndReason.SESSION_CLOSED,
        ),
    ],
)
@pytest.mark.parametrize("claimed", [None, EndReason.SOURCES_ENDED])
def test_a_requested_end_has_the_reason_of_the_request(
    node: InProcessNode,
    end: Callable[[InProcessNode, RunningQuery], object],
    reason: EndReason,
    claimed: EndReason | None,
) -> None:
    query = RunningQuery(node)
    end(node, query)
    assert node.stream(query.id)["end_reason"] is None
    query.report(StreamState.STOPPED, reason=claimed, sequence=9)

    assert node.stream(query.id)["end_reason"] == reason
    details = [event["detail"] for event in node.events(query.id)[-2:]]
    assert details == [describe_end(reason)] * 2


def test_a_driver_that_stops_a_query_because_it_exits_does_not_end_the_query(
    node: InProcessNode,
) -> None:
    query = RunningQuery(node)
    query.report(StreamState.STOPPED, sequence=9)

    assert query.state == "running"


def test_a_failed_query_can_be_restarted_but_never_revived(node: InProcessNode) -> None:
    query = RunningQuery(node)
    query.report(StreamState.FAILED, error=ERROR)
    query.report(StreamState.RUNNING)
    assert query.state == "failed"
    assert node.act_on_stream(query.id, "restart")["attempt"] == 2


def test_a_statement_that_fails_ends_its_query(node: InProcessNode) -> None:
    session, driver = node.start_session(kind="streaming")
    statement = node.submit("SAVE STREAM nosuch TO noop", session=session)["id"]
    driver.claim()
    driver.report_end(statement, StatementState.FAILED, failure=ERROR)
    shown = node.stream("nosuch")

    assert (shown["state"], shown["last_error"]["message"]) == ("failed", "division by zero")


def test_a_cancelled_statement_ends_its_query_and_frees_the_name(node: InProcessNode) -> None:
    session, _driver = node.start_session(kind="streaming")
    statement = node.submit("SAVE STREAM early TO noop", session=session)["id"]
    node.http.post(f"/api/v1/statements/{statement}/cancel")

    assert node.stream("early")["state"] == "stopped"
    node.submit("SAVE STREAM early TO noop", session=session)


def test_a_started_query_is_stopped_by_stop_stream_not_by_a_cancel(node: InProcessNode) -> None:
    query = RunningQuery(node)
    response = node.http.post(f"/api/v1/statements/{query.statement}/cancel")

    assert response.status_code == 409
    assert "STOP STREAM" in response.text
    assert query.state == "running"


def test_progress_is_kept_in_a_bounded_ring(node: InProcessNode) -> None:
    query = RunningQuery(node)
    for begin in (0, 90):
        batches = [_progress(batch) for batch in range(begin, begin + 90)]
        query.report(StreamState.RUNNING, last_batch=begin + 89, progress=batches)
    shown = node.stream(query.name)

    assert [batch["batch"] for batch in shown["progress"]] == list(range(80, 180))
    page = node.http.get("/api/v1/streams", params={"live": True, "limit": 1000}).json()
    listed = next(item for item in page["items"] if item["id"] == query.id)
    assert [batch["batch"] for batch in listed["progress"]] == [179]


def test_a_driver_changes_no_query_of_another_session(node: InProcessNode) -> None:
    query, other = RunningQuery(node), RunningQuery(node)
    query.report(
        StreamState.FAILED, driver=other.driver, error=ERROR, progress=[_progress(5)], last_batch=5
    )
    shown = node.stream(query.name)

    assert (shown["state"], shown["last_batch"], shown["progress"]) == ("running", None, [])


@pytest.mark.parametrize("state", [StreamState.STOPPING, StreamState.PAUSED])
def test_a_driver_cannot_report_a_state_that_only_users_request(
    node: InProcessNode, state: StreamState
) -> None:
    query = RunningQuery(node)
    query.report(state)

    assert query.state == "running"


def _progress(batch: int) -> QueryProgress:
    return QueryProgress(
        batch=batch,
        at="2026-11-22T00:00:00.000Z",
        input_rows=10,
        input_rate=1.0,
        process_rate=2.0,
        milliseconds=5,
    )
