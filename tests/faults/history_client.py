"""The requests of a history to the nodes of its lane, repeated until a node answers."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import httpx
from tests.faults.cluster import ChaosNode
from tests.faults.lane import ChaosLane
from tests.support.node import ENDED
from tests.support.waiting import wait_until

_TIMEOUT_SECONDS = 300.0


class HistoryClient:
    """Submits statements in the session of a lane, and waits for their ends."""

    def __init__(self, lane: ChaosLane, seed: str) -> None:
        self._lane = lane
        self._random = random.Random(seed)
        self._seed = seed
        self._count = 0
        self.answers: dict[str, list[str]] = defaultdict(list)
        """The statement ids in the answers to each submitted text."""
        self.sessions: set[str] = set()

    def _submit(self, text: str, *, times: int = 1, **fields: Any) -> str:
        """Submit a statement, to a new session if the lane's session has ended; return its id."""
        marked = f"{text} /* {self._new_mark()} */"
        if "session" not in fields:
            fields["session"] = self._ensure_base()
        body = {"statement": marked} | {
            name: value for name, value in fields.items() if value is not None
        }
        key = {"Idempotency-Key": self._new_mark()}
        for _ in range(times):
            answer = self._request("POST", "/statements", json=body, headers=key)
            if answer.status_code == httpx.codes.CONFLICT:
                # The session has ended in the meantime, so the node has not accepted the statement.
                self._lane.base = None
                return self._submit(text, times=times, **{**fields, "session": self._ensure_base()})
            assert answer.is_success, answer.text
            self.answers[marked].append(answer.json()["id"])
            self.sessions.add(answer.json()["session_id"])
        return self.answers[marked][0]

    def _ensure_base(self) -> str:
        """Return the lane's session, a new one if it has ended."""
        base = self._lane.base
        if base is None or self._get_session(base)["state"] in {"closing", "dead", "failed"}:
            self._lane.base = base = self._open(parallelism=2, kind="streaming")
        return base

    def _open(self, **fields: Any) -> str:
        """Open a session. Its unique name finds it if the answer was lost."""
        body = {"name": f"s{self._new_mark()}", **fields}
        answer = self._request("POST", "/sessions", json=body)
        if answer.status_code == httpx.codes.CONFLICT:
            answer = self._request("GET", f"/sessions/{body['name']}")
        assert answer.is_success, answer.text
        session = str(answer.json()["id"])
        self.sessions.add(session)
        return session

    def _new_mark(self) -> str:
        self._count += 1
        return f"{self._seed.replace('.', '_')}_{self._lane.number}_{self._count}"

    def _choose_node(self) -> ChaosNode:
        return self._random.choice(self._lane.nodes)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request until a node answers. Restart nodes that have ended."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            node = self._choose_node()
            try:
                answer = node.http.request(method, f"/api/v1{path}", **options)
            except (httpx.TransportError, RuntimeError):
                node.ensure()
                continue
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                return answer
        raise AssertionError(f"No node has answered {method} {path}.")

    def _list_nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self._request("GET", "/nodes").json()["items"]
        return nodes

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, seconds=_TIMEOUT_SECONDS, what=what, every=0.1)

    def _get_session(self, session: str) -> dict[str, Any]:
        return dict(self._request("GET", f"/sessions/{session}").json())

    def _get_statement(self, statement: str, **query: Any) -> dict[str, Any]:
        return dict(self._request("GET", f"/statements/{statement}", params=query).json())

    def _get_stream(self, name: str) -> dict[str, Any]:
        return dict(self._request("GET", f"/streams/{name}").json())

    def _wait_started(self, statement: str) -> None:
        self._wait_until(
            lambda: self._get_statement(statement)["state"] not in {"waiting", "launched"},
            f"{statement} has started",
        )

    def _wait_ended(self, statement: str) -> None:
        self._wait_until(
            lambda: self._get_statement(statement, wait_timeout="5s")["state"] in ENDED,
            f"{statement} has ended",
        )
