"""Calls of a node's HTTP API, which every kind of test node shares."""

from __future__ import annotations

from typing import Any

import httpx
from tests.support.waiting import wait_until

from headrace.model.lifecycle import STATEMENT

Json = dict[str, Any]

ENDED = {str(state) for state in STATEMENT.terminal}
"""States of a statement that has ended."""


class NodeClient:
    """A client of one node. A call that the node refuses fails the test.

    A subclass starts and stops the node, and sets `http`. Tests of refused calls use `http`.
    """

    http: httpx.Client

    def session(self, **fields: Any) -> str:
        """Create a session and return its id. Its driver starts in the background."""
        response = self.http.post("/api/v1/sessions", json=fields)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    def describe_session(self, session: str) -> Json:
        """Return a session as the API describes it."""
        return self._get(f"/api/v1/sessions/{session}")

    def session_state(self, session: str) -> str:
        return str(self.describe_session(session)["state"])

    def wait_running(self, session: str, *, seconds: float = 120) -> None:
        """Wait until the driver of a session has started."""

        def is_running() -> bool:
            state = self.session_state(session)
            if state in {"failed", "dead"}:
                raise AssertionError(self.http.get(f"/api/v1/sessions/{session}/log").text)
            return state == "running"

        wait_until(is_running, seconds=seconds, what=f"session {session} runs")

    def submit(
        self, text: str = "SELECT 1 AS x", session: str | None = None, **fields: Any
    ) -> Json:
        """Submit a statement and return the answer of the node."""
        body = {"statement": text, **fields} | ({"session": session} if session else {})
        response = self.http.post("/api/v1/statements", json=body)
        assert response.status_code == 201, response.text
        return dict(response.json())

    def statement(self, statement_id: str, **query: Any) -> Json:
        """Return a statement as the API describes it."""
        return self._get(f"/api/v1/statements/{statement_id}", **query)

    def result(self, statement_id: str, **query: Any) -> Json:
        """Return one chunk of a result, as JSON."""
        return self._get(f"/api/v1/statements/{statement_id}/result", **query)

    def run(self, text: str, session: str | None = None, **fields: Any) -> Json:
        """Submit a statement, wait until it has ended in any state, and return it."""
        statement = self.submit(text, session, wait_timeout="60s", **fields)
        return statement if statement["state"] in ENDED else self.wait_ended(statement["id"])

    def wait_ended(self, statement_id: str) -> Json:
        """Wait until a statement has ended in any state, and return it."""
        while (statement := self.statement(statement_id, wait_timeout="60s"))["state"] not in ENDED:
            pass
        return statement

    def rows(self, text: str, session: str | None = None, **fields: Any) -> list[list[Any]]:
        """Run a statement that must succeed, and return its rows; inexact numbers are text."""
        statement = self.run(text, session, **fields)
        assert statement["state"] == "success", statement
        rows: list[list[Any]] = []
        chunk: int | None = 0
        while chunk is not None:
            page = self.result(statement["id"], chunk=chunk)
            rows += page["rows"]
            chunk = page["next_chunk"]
        return rows

    def stream(self, name: str) -> Json:
        """Return a streaming query as the API describes it."""
        return self._get(f"/api/v1/streams/{name}")

    def act_on_stream(self, name: str, action: str) -> Json:
        """Stop, pause, resume, restart or retry a streaming query, and return it."""
        response = self.http.post(f"/api/v1/streams/{name}/{action}")
        assert response.status_code == 202, response.text
        return dict(response.json())

    def events(self, entity_id: str) -> list[Json]:
        """Return the events of one session, statement or transaction, oldest first."""
        return list(self._get("/api/v1/events", entity_id=entity_id)["items"])

    def _get(self, path: str, **query: Any) -> Json:
        response = self.http.get(path, params=query)
        assert response.status_code == 200, response.text
        return dict(response.json())
