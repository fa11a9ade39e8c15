"""A streaming query whose driver a test plays."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

from tests.support.in_process_node import InProcessNode
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.failure import Failure
from headrace.model.lifecycle import StreamState
from headrace.model.stream_query import DesiredQuery, QueryProgress, QueryReport
from headrace.store.streams import stream_queries

_numbers = count()
ERROR = Failure(code="execution_error", message="division by zero")


class RunningQuery:
    """A query that a scripted driver has started, with what the driver reports about it."""

    def __init__(
        self, node: InProcessNode, *, sink: str = "noop", options: str = "", **session: Any
    ) -> None:
        """Start a query.

        Args:
            sink: Name of the sink.
            options: Clause of the statement.
            session: Fields of its session.
        """
        self.node = node
        self.name = f"q{next(_numbers)}"
        self.session, self.driver = node.start_session(kind="streaming", **session)
        self.statement = node.submit(
            f"SAVE STREAM t TO {sink} IDENTIFIED BY {self.name} {options}", session=self.session
        )["id"]
        query = self.driver.claim().query
        assert query is not None
        self.id = query.id
        assert self.driver.succeed(self.statement).applied
        self.report(StreamState.RUNNING)

    @property
    def state(self) -> str:
        return str(self.node.stream(self.id)["state"])

    def desired(self) -> DesiredQuery | None:
        """Return what the node orders about the query, or None."""
        queries = self.driver.read_streams().queries
        return next((query for query in queries if query.id == self.id), None)

    def report(
        self, state: StreamState, *, driver: ScriptedDriver | None = None, **facts: Any
    ) -> None:
        """Report a state, for the newest generation unless `facts` say otherwise."""
        facts = {"generation": self._generation(), "run_id": "run-1"} | facts
        report = QueryReport(id=self.id, state=state, **facts)
        streams = int(state is StreamState.RUNNING)
        assert (driver or self.driver).renew(streams=streams, queries=[report]).applied

    def transitions(self) -> list[tuple[str | None, str]]:
        return [(event.get("from"), event["to"]) for event in self.node.events(self.id)]

    def _generation(self) -> int:
        with self.node.database.read() as tx:
            query = stream_queries.get(tx, self.id)
            assert query is not None
            return query.generation


def make_batch(number: int, *, rows: int = 10, milliseconds: int | None = None) -> QueryProgress:
    """Return the progress of a batch."""
    return QueryProgress(
        batch=number,
        at=datetime(2026, 1, 1, 0, 0, number % 60, tzinfo=UTC).isoformat(),
        input_rows=rows,
        input_rate=5.0,
        process_rate=1234.5,
        milliseconds=100 * number if milliseconds is None else milliseconds,
    )
