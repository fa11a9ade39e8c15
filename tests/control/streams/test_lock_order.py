"""Locks of statements that act on queries of other sessions, in real transactions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import StartNode
from tests.support.lock_meeting import Meeting
from tests.support.running_query import RunningQuery

from headrace.model.lifecycle import StatementState
from headrace.model.statement import Statement, StatementSpec


def test_two_statements_that_stop_queries_in_the_session_of_the_other_do_not_deadlock(
    start_node: StartNode, postgres_url: str
) -> None:
    node = start_node(store={"url": postgres_url})
    first, second = RunningQuery(node), RunningQuery(node)
    meeting = Meeting(node)

    def stop(query: RunningQuery, session: str) -> Statement:
        meeting.join()
        spec = StatementSpec(text=f"STOP STREAM {query.name}")
        return node.node.statements.submit(LOCAL_CALLER, spec, session=session)

    with ThreadPoolExecutor(2) as pool:
        stops = [
            pool.submit(stop, first, second.session),
            pool.submit(stop, second, first.session),
        ]
        statements = [each.result() for each in stops]

    assert [each.state for each in statements] == [StatementState.SUCCESS] * 2
    assert (first.state, second.state) == ("stopping", "stopping")
