"""One history: what users do in a few seconds, one thing that goes wrong, and rest after it."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import httpx
from tests.faults.cluster import Node, drivers
from tests.faults.lane import Lane
from tests.support.node import ENDED
from tests.support.waiting import wait_until

_PATIENCE = 150.0
# One slot of the two: who begins beside it must come to an end.
_LONG = "SELECT count(*) FROM range(0, 1000000000000, 1, 1) WHERE id % 3 = 7"
_SLOW = (
    "SELECT count(*) FROM range(0, 4, 1, 2)"
    " WHERE reflect('java.lang.Thread', 'sleep', 1000L) IS NULL"
)
# Folded while it is planned: there is no job that could be cancelled.
_DEAF = (
    "SELECT size(transform(sequence(1, 1000000),"
    " x -> aggregate(sequence(1, 1000000), 0L, (a, y) -> a + x * y)))"
)
_RESTFUL = {"dead", "failed", "running", "recovering"}


class History:
    """Steps are its public methods without arguments; recipes.py names them."""

    def __init__(self, lane: Lane, seed: str) -> None:
        self._lane = lane
        self._random = random.Random(seed)
        self._seed = seed
        self._count = 0
        self.answers: dict[str, list[str]] = defaultdict(list)
        """Each text's statement ids, as often as it was answered."""
        self.sessions: set[str] = set()

    def run(self, steps: list[str]) -> None:
        """All steps, then everything comes to rest. Raises AssertionError when it does not."""
        for step in steps:
            getattr(self, step)()
        self._lane.whole()
        for ids in self.answers.values():
            self._wait_ended(ids[0])
            self._readable(ids[0])
        self._close_others()
        wait_until(self._no_stray_driver, seconds=60, what="lost drivers end", every=0.2)

    # Steps.

    def query(self) -> None:
        self._submit("SELECT count(*) FROM range(100)")

    def setting(self) -> None:
        self._submit(f"SET my.own{self._random.randrange(3)} = 1")

    def table(self) -> None:
        self._submit(f"CREATE TABLE t_{self._mark()} AS SELECT 1 AS x")

    def insert(self) -> None:
        name = f"t_{self._mark()}"
        self._submit(f"CREATE TABLE {name} (x INT)")
        self._submit(f"INSERT INTO {name} VALUES (1)")

    def failing(self) -> None:
        self._submit("SELECT * FROM there_is_no_such_table")

    def slow(self) -> None:
        """About four seconds: long enough for a renewal and a report of progress."""
        self._wait_begun(self._submit(_SLOW))

    def twice(self) -> None:
        """The same request again, as who has lost the answer sends it."""
        self._submit("SELECT 2", times=2)

    def cancel(self) -> None:
        statement = self._submit(_LONG)
        if self._random.random() < 0.7:
            self._wait_begun(statement)
        self._ask("POST", f"/statements/{statement}/cancel")

    def local(self) -> None:
        """A node's own statement takes its turn."""
        first = self._submit(_SLOW)
        self._submit(f"CANCEL STATEMENT '{first}'")

    def timeout(self) -> None:
        self._submit(_LONG, timeout="500ms")

    def queue_timeout(self) -> None:
        self._submit(_SLOW)
        self._submit("SHOW TABLES", queue_timeout="500ms")

    def stuck(self) -> None:
        """Only the end of its driver ends it."""
        statement = self._submit(_DEAF)
        self._wait_begun(statement)
        self._ask("POST", f"/statements/{statement}/cancel")
        self._wait_ended(statement)

    def stuck_beside(self) -> None:
        """Its driver is not ended, for there is a neighbour; then by force."""
        beside = self._submit(_LONG)
        statement = self._submit(_DEAF)
        self._wait_begun(statement)
        self._ask("POST", f"/statements/{statement}/cancel")
        self._until(lambda: self._noted(statement), "a cancel is noted as stuck")
        self._ask("POST", f"/statements/{statement}/cancel", params={"force": True})
        self._ask("POST", f"/statements/{beside}/cancel")
        self._wait_ended(statement)

    def batch(self) -> None:
        self._wait_ended(self._submit("SELECT 3", kind="batch", session=None))

    def own_session(self) -> None:
        """One without a name: an embedded node closes it, and its driver, when it ends."""
        self._wait_begun(self._submit(_LONG, session=None))

    def renew_session(self) -> None:
        """The lane's driver has something to do, is closed, and another one is started."""
        base = self._lane.base
        if base is not None:
            self._ask("DELETE", f"/sessions/{base}")
            self._until(lambda: self._session(base)["state"] in {"dead", "failed"}, "it is closed")
        self._lane.base = None
        self._wait_ended(self._submit("SELECT 4"))

    def aged(self) -> None:
        session = self._open(ttl="1s")
        self._until(lambda: self._session(session)["state"] == "dead", "it is too old")

    def refused(self) -> None:
        self._fails("refused")

    def missing(self) -> None:
        self._fails("missing")

    def killed_node(self) -> None:
        node = self._node()
        node.kill()
        node.ensure()

    def bounce(self) -> None:
        """A node is stopped in order, and comes back."""
        node = self._node()
        node.stop()
        node.ensure()

    def store_restart(self) -> None:
        self._submit(_SLOW)
        self._lane.restart_store()

    # What they are made of.

    def _fails(self, profile: str) -> None:
        session = self._open(profile=profile)
        self._until(lambda: self._session(session)["state"] == "failed", "it cannot be started")

    def _submit(self, text: str, *, times: int = 1, **fields: Any) -> str:
        """Also when it is the session's last moment: a closed session's statement goes to the next.

        Returns the statement's id.
        """
        marked = f"{text} /* {self._mark()} */"
        if "session" not in fields:
            fields["session"] = self._base()
        body = {"statement": marked} | {key: one for key, one in fields.items() if one is not None}
        key = {"Idempotency-Key": self._mark()}
        for _ in range(times):
            answer = self._ask("POST", "/statements", json=body, headers=key)
            if answer.status_code == httpx.codes.CONFLICT:
                # The session has ended meanwhile: what was refused was not accepted.
                self._lane.base = None
                return self._submit(text, times=times, **{**fields, "session": self._base()})
            assert answer.is_success, answer.text
            self.answers[marked].append(answer.json()["id"])
            self.sessions.add(answer.json()["session_id"])
        return self.answers[marked][0]

    def _base(self) -> str:
        """The lane's session, which outlives histories; another one when it has ended."""
        base = self._lane.base
        if base is None or self._session(base)["state"] in {"closing", "dead", "failed"}:
            self._lane.base = base = self._open(parallelism=2)
        return base

    def _open(self, **fields: Any) -> str:
        """By a name of its own, so that it is found when the answer is lost."""
        body = {"name": f"s{self._mark()}", **fields}
        answer = self._ask("POST", "/sessions", json=body)
        if answer.status_code == httpx.codes.CONFLICT:
            answer = self._ask("GET", f"/sessions/{body['name']}")
        assert answer.is_success, answer.text
        session = str(answer.json()["id"])
        self.sessions.add(session)
        return session

    def _mark(self) -> str:
        self._count += 1
        return f"{self._seed.replace('.', '_')}_{self._lane.number}_{self._count}"

    def _node(self) -> Node:
        return self._random.choice(self._lane.nodes)

    def _ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Asks until somebody answers; who finds a node dead starts it again."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            node = self._node()
            try:
                answer = node.http.request(method, f"/api/v1{path}", **request)
            except (httpx.TransportError, RuntimeError):
                node.ensure()
                continue
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                return answer
        raise AssertionError(f"{method} {path} gets no answer")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, seconds=_PATIENCE, what=what, every=0.1)

    def _session(self, session: str) -> dict[str, Any]:
        return dict(self._ask("GET", f"/sessions/{session}").json())

    def _statement(self, statement: str, **query: Any) -> dict[str, Any]:
        return dict(self._ask("GET", f"/statements/{statement}", params=query).json())

    def _noted(self, statement: str) -> bool:
        told = self._statement(statement)
        return told["state"] in ENDED or told["cancel_note"] is not None

    def _wait_begun(self, statement: str) -> None:
        self._until(
            lambda: self._statement(statement)["state"] not in {"waiting", "launched"},
            f"{statement} begins",
        )

    def _wait_ended(self, statement: str) -> None:
        self._until(
            lambda: self._statement(statement, wait_timeout="5s")["state"] in ENDED,
            f"{statement} ends",
        )

    def _readable(self, statement: str) -> None:
        """A success has a result that any node can read, until its time is over."""
        if self._statement(statement)["state"] == "success":
            answer = self._ask("GET", f"/statements/{statement}/result")
            assert answer.status_code in {200, 410}, answer.text

    def _close_others(self) -> None:
        """Only the lane's own session stays, with or without a driver."""
        live = ["not_started", "starting", "running", "recovering", "closing"]
        page = self._ask("GET", "/sessions", params={"state": live}).json()["items"]
        others = [one["id"] for one in page if one["id"] != self._lane.base]
        for one in others:
            self._ask("DELETE", f"/sessions/{one}")
        for one in [*others, *([self._lane.base] if self._lane.base else [])]:
            self._until(lambda one=one: self._at_rest(one), f"session {one} comes to rest")

    def _at_rest(self, session: str) -> bool:
        state = self._session(session)["state"]
        return state in (_RESTFUL if session == self._lane.base else {"dead", "failed"})

    def _strays(self) -> list[str]:
        """Processes of drivers that no session has any more."""
        base = self._lane.base
        epoch = self._session(base)["epoch"] if base else None
        found = drivers(self._lane.folder)
        return [f"{one} {at} {it.pid}" for one, at, it in found if (one, at) != (base, epoch)]

    def _no_stray_driver(self) -> bool:
        return not self._strays()
