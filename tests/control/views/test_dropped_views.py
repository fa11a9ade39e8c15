"""DROP MATERIALIZED VIEW beside other requests: restarts of its query, and other DROPs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.lock_meeting import Meeting
from tests.support.views import ViewWriter

from headrace.model.lifecycle import StatementState, StreamState
from headrace.model.statement import Statement, StatementSpec
from headrace.model.stream_query import QueryReport

AUTO = "WITH (auto_refresh = true)"


def report(view: ViewWriter, state: StreamState, generation: int) -> None:
    """Report the state of the view's query."""
    [query] = view.driver.read_streams().queries
    told = QueryReport(id=query.id, generation=generation, state=state, run_id="r", last_batch=0)
    assert view.driver.renew(queries=[told]).applied


def test_the_query_of_a_dropped_view_cannot_be_restarted_while_it_stops(
    node: InProcessNode,
) -> None:
    view = ViewWriter(node, properties=AUTO).make()
    report(view, StreamState.RUNNING, 1)
    node.run(f"DROP MATERIALIZED VIEW {view.name}")
    stopping = node.stream(view.name)["state"]
    restarted = node.http.post(f"/api/v1/streams/{view.name}/restart")
    report(view, StreamState.STOPPED, 2)

    assert stopping == "stopping"
    assert (restarted.status_code, restarted.json()["code"]) == (409, "stream_state_conflict")
    assert node.stream(view.name)["state"] == "stopped"
    assert view.carry_out_all() == 1


def test_a_drop_takes_back_the_restart_that_was_requested(node: InProcessNode) -> None:
    view = ViewWriter(node, properties=AUTO).make()
    report(view, StreamState.RUNNING, 1)
    assert node.http.post(f"/api/v1/streams/{view.name}/restart").status_code == 202
    node.run(f"DROP MATERIALIZED VIEW {view.name}")
    report(view, StreamState.STOPPED, 3)

    assert node.stream(view.name)["state"] == "stopped"
    assert view.carry_out_all() == 1


def test_of_two_drops_at_the_same_time_one_finds_no_view(
    start_node: StartNode, postgres_url: str
) -> None:
    node = start_node(store={"url": postgres_url})
    view = ViewWriter(node).make()
    sessions = [node.start_session()[0] for _ in range(2)]
    meeting = Meeting(node)
    with ThreadPoolExecutor(2) as pool:
        drops = [pool.submit(drop, node, meeting, view.name, each) for each in sessions]
        statements = [each.result() for each in drops]

    assert sorted(each.state for each in statements) == [
        StatementState.FAILED,
        StatementState.SUCCESS,
    ]
    failures = [each.failure.code for each in statements if each.failure is not None]
    assert failures == ["materialized_view_not_found"]
    assert view.carry_out_all() == 1


def test_two_drops_in_the_session_of_the_query_of_the_other_do_not_deadlock(
    start_node: StartNode, postgres_url: str
) -> None:
    node = start_node(store={"url": postgres_url})
    first, second = (ViewWriter(node, properties=AUTO).make() for _ in range(2))
    meeting = Meeting(node)
    with ThreadPoolExecutor(2) as pool:
        drops = [
            pool.submit(drop, node, meeting, first.name, second.session),
            pool.submit(drop, node, meeting, second.name, first.session),
        ]
        statements = [each.result() for each in drops]

    assert [each.state for each in statements] == [StatementState.SUCCESS] * 2


def drop(node: InProcessNode, meeting: Meeting, name: str, session: str) -> Statement:
    """Drop a view with a statement of this session, which takes part in the meeting."""
    meeting.join()
    spec = StatementSpec(text=f"DROP MATERIALIZED VIEW {name}")
    return node.node.statements.submit(LOCAL_CALLER, spec, session=session)
