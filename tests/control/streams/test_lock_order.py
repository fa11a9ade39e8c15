"""Locks of statements that act on queries of other sessions, in real transactions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import event
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.running_query import RunningQuery

from headrace.control.caller import Caller
from headrace.model.lifecycle import StatementState
from headrace.model.statement import Statement, StatementSpec


class Meeting:
    """Lets two transactions meet after the first lock that each has on a session.

    A transaction that meets nobody continues after a second: the other one waits for its lock.
    """

    def __init__(self, node: InProcessNode) -> None:
        self._barrier = threading.Barrier(2)
        self._threads: set[int] = set()
        event.listen(node.database._writers, "after_cursor_execute", self._on_query)

    def join(self) -> None:
        """Take part with the next transaction of this thread."""
        self._threads.add(threading.get_ident())

    def _on_query(self, _connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        locks_session = sql.startswith("UPDATE sessions") or (
            "FROM sessions" in sql and "FOR UPDATE" in sql
        )
        if locks_session and threading.get_ident() in self._threads:
            self._threads.discard(threading.get_ident())
            try:
                self._barrier.wait(timeout=1)
            except threading.BrokenBarrierError:
                return


def test_two_statements_that_stop_queries_in_the_session_of_the_other_do_not_deadlock(
    start_node: StartNode, postgres_url: str
) -> None:
    node = start_node(store={"url": postgres_url})
    first, second = RunningQuery(node), RunningQuery(node)
    meeting = Meeting(node)

    def stop(query: RunningQuery, session: str) -> Statement:
        meeting.join()
        spec = StatementSpec(text=f"STOP STREAM {query.name}")
        return node.node.statements.submit(Caller("anonymous"), spec, session=session)

    with ThreadPoolExecutor(2) as pool:
        stops = [
            pool.submit(stop, first, second.session),
            pool.submit(stop, second, first.session),
        ]
        statements = [each.result() for each in stops]

    assert [each.state for each in statements] == [StatementState.SUCCESS] * 2
    assert (first.state, second.state) == ("stopping", "stopping")
