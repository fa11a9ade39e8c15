"""The user who pauses, resumes, restarts and stops streaming queries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from tests.faults.chaos_cluster.load import UserSession, Worker
from tests.faults.chaos_cluster.record import LoadRecord, Work
from tests.support.waiting import wait_until

from headrace.client.http import Json
from headrace.errors import HeadraceError, NodeUnreachable, StoreUnavailable

_WAIT_SECONDS = 240.0
_LONGEST_PAUSE = 8.0
"""Longer than a driver takes to repeat its last report."""
_AT_REST = {"paused", "stopped", "failed"}
_TURNS = {
    "pause and resume": ["pause", "resume"],
    "pause and stop": ["pause", "stop", "restart"],
    "pause and restart": ["pause", "restart"],
    "pause, taken back": ["pause at once", "resume"],
    "stop and restart": ["stop", "restart"],
    "stop and save again": ["stop", "save"],
    "restart": ["restart"],
}
"""The actions of a turn. Before and after it, the query runs."""
_ENDS = {
    "pause": "paused",
    "resume": "running",
    "restart": "running",
    "stop": "stopped",
    "save": "running",
}
"""The state that each action leads to."""


class StreamUser(Worker):
    """Acts on some queries, half of the time with SQL, and checks the state after each action."""

    def __init__(
        self, session: UserSession, record: LoadRecord, seed: str, queries: Mapping[str, str]
    ) -> None:
        """Create the user.

        Args:
            queries: The SAVE STREAM of each query, by the name of the query.
        """
        super().__init__(session, record, seed)
        self._queries = queries

    def begin(self) -> None:
        """Start all queries."""
        for name in self._queries:
            self._save(name)

    def end(self, others: Iterable[str]) -> None:
        """Stop all queries of the user, and others."""
        for name in (*self._queries, *others):
            self._act(name, "stop")
            self._wait(name, "stopped")

    def take_turn(self) -> None:
        name = self._chance.choice(list(self._queries))
        turn = self._chance.choice(list(_TURNS))
        for action in _TURNS[turn]:
            self._take_action(name, action)
        self._record.count(f"{turn}: {name}")
        # A query that changes all the time would never commit a batch.
        self._stopping.wait(self._chance.uniform(1.0, 5.0))

    def _take_action(self, name: str, action: str) -> None:
        if action == "save":
            self._save(name)
            return
        is_at_once = action == "pause at once"
        action = action.removesuffix(" at once")
        before = self._session.client.stream(name)["attempt"]
        if self._chance.random() < 0.5:
            self._act_by_sql(name, action)
        else:
            self._act(name, action)
        if is_at_once:
            return
        self._wait(name, _ENDS[action], attempt=before + (action == "restart"))
        if action == "pause":
            self._check_pause(name, self._chance.uniform(0.0, _LONGEST_PAUSE))

    def _save(self, name: str) -> None:
        """Submit the SAVE STREAM until it has started the query."""
        while (statement := self._session.run(Work.SAVE_STREAM, self._queries[name])) and (
            statement["state"] != "success"
        ):
            code = (statement["error"] or {}).get("code")
            assert code == "driver_lost", statement
        self._wait(name, "running")

    def _act_by_sql(self, name: str, action: str) -> None:
        text = f"{action.upper()} STREAM {name}"
        statement = self._session.run(Work.STREAM_ACTION, text)
        assert statement["state"] == "success", statement

    def _act(self, name: str, action: str) -> None:
        """Send an action until a node has taken it.

        A repeated action is in force, or finds the state that the first one has led to.
        """
        is_repeated = False
        while True:
            try:
                self._session.client.act_on_stream(name, action)
            except (NodeUnreachable, StoreUnavailable):
                is_repeated = True
                continue
            except HeadraceError as error:
                if not (is_repeated and error.code == "stream_state_conflict"):
                    raise
            return

    def _wait(self, name: str, state: str, *, attempt: int = 0) -> None:
        """Wait until a query has a state, and raise AssertionError if it has another final one.

        Args:
            attempt: The least number of the attempt. A restart begins the next one.
        """

        def reached() -> Json | None:
            query = self._session.client.stream(name)
            if query["attempt"] < attempt:
                return None
            if query["state"] == state:
                return query
            has_other_end = query["state"] in _AT_REST and state != "running"
            assert not has_other_end, f"the query {name} was to be {state}: {query}"
            assert query["state"] != "failed", f"the query {name} has failed: {query}"
            return None

        wait_until(reached, seconds=_WAIT_SECONDS, what=f"the query {name} is {state}", every=0.2)

    def _check_pause(self, name: str, seconds: float) -> None:
        """Check for some seconds that a paused query stays paused, whatever fails."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._stopping.wait(0.5):
            query = self._session.client.stream(name)
            assert query["state"] == "paused", f"a pause does not last: {query}"
