"""A history: the steps of users in a few seconds, with faults, until everything is at rest."""

from __future__ import annotations

import contextlib
import threading
from functools import partial

import httpx
import psutil
from tests.faults.cluster import LEASE_SECONDS, ChaosNode, DriverProcess, find_drivers
from tests.faults.job_steps import JobSteps
from tests.faults.lane import ChaosLane
from tests.faults.texts import LONG, SLOW, UNCANCELLABLE
from tests.support.node import ENDED
from tests.support.processes import end
from tests.support.waiting import wait_until

from headrace.model.lifecycle import SESSION
from headrace.store.statements.statement_queue import CHUNK

_RESTFUL = {"dead", "failed", "running"}
_ENDS_OF_ACTIONS = {
    "pause": "paused",
    "resume": "running",
    "restart": "running",
    "stop": "stopped",
}
"""The state of a streaming query to which each action leads."""


class History(JobSteps):
    """Plays steps in a lane. Each public method without arguments is a step of recipes.py."""

    def __init__(self, lane: ChaosLane, seed: str) -> None:
        super().__init__(lane, seed)
        self.survivors: list[DriverProcess] = []
        """Processes that were alive when their sessions had ended."""

    def run(self, steps: list[str]) -> None:
        """Play all steps, then wait until every session and driver is at rest.

        Raises:
            AssertionError: A node, session or driver did not come to rest in time.
        """
        for step in steps:
            getattr(self, step)()
        self._lane.ensure_nodes()
        for ids in self.answers.values():
            self._wait_ended(ids[0])
            self._check_result(ids[0])
        self._wait_operations()
        self._close_other_sessions()
        self.survivors = self._find_survivors()
        wait_until(
            lambda: not self._find_orphans(), seconds=60, what="lost drivers have ended", every=0.2
        )

    # Steps

    def query(self) -> None:
        self._submit("SELECT count(*) FROM range(100)")

    def stored(self) -> None:
        """Run a query whose rows are files in the results location."""
        self._submit("SELECT id FROM range(100000)", result="stored")

    def setting(self) -> None:
        self._submit(f"SET my.own{self._random.randrange(3)} = 1")

    def table(self) -> None:
        self._submit(f"CREATE TABLE t_{self._new_mark()} AS SELECT 1 AS x")

    def insert(self) -> None:
        name = f"t_{self._new_mark()}"
        self._submit(f"CREATE TABLE {name} (x INT)")
        self._submit(f"INSERT INTO {name} VALUES (1)")

    def failing(self) -> None:
        self._submit("SELECT * FROM there_is_no_such_table")

    def slow(self) -> None:
        """Run for four seconds: long enough for a renewal and a progress report."""
        self._wait_started(self._submit(SLOW))

    def twice(self) -> None:
        """Send the same request twice, like a client that has lost the answer."""
        self._submit("SELECT 2", times=2)

    def cancel(self) -> None:
        statement = self._submit(LONG)
        if self._random.random() < 0.7:
            self._wait_started(statement)
        self._request("POST", f"/statements/{statement}/cancel")

    def stream(self) -> None:
        """Start a streaming query, let it run for a while beside a statement, and stop it.

        Whatever fails meanwhile, the query must run again before it is stopped.
        """
        self._submit("CREATE OR REPLACE STREAM beat FROM rate OPTIONS ('rowsPerSecond' = '10')")
        name = f"q{self._new_mark()}"
        statement = self._submit(f"SAVE STREAM beat TO noop IDENTIFIED BY {name}")
        self._wait_ended(statement)
        if self._get_statement(statement)["state"] != "success":
            return
        self._submit(SLOW)
        ended = {"stopped", "failed"}
        self._wait_until(
            lambda: self._get_stream(name)["state"] in {"running", *ended}, f"{name} runs"
        )
        self._request("POST", f"/streams/{name}/stop")
        self._wait_until(lambda: self._get_stream(name)["state"] in ended, f"{name} has stopped")

    def paused_stream(self) -> None:
        """Pause, resume, restart and stop a streaming query. A pause must last."""
        actions = ["pause", "resume", "restart", "pause", "stop"]
        self._run_stream("noop", actions)

    def table_stream(self) -> None:
        """Restart and stop a streaming query that writes to a table of files."""
        table = f"t_{self._new_mark()}"
        self._submit(f"CREATE TABLE {table} (timestamp TIMESTAMP, value BIGINT) USING parquet")
        self._run_stream(f"TABLE {table}", ["restart", "stop"])

    def connection(self) -> None:
        """Create a view in a connection, close the connection, and read the view there.

        Whatever fails meanwhile, a query that runs must find what the statement before it has made.
        """
        connection = self._request("POST", "/connections", json={}).json()["id"]
        place = {"session": None, "connection": connection}
        view = self._submit("CREATE OR REPLACE TEMPORARY VIEW own AS SELECT 7 AS x", **place)
        read = self._submit("SELECT x FROM own", **place)
        self._request("DELETE", f"/connections/{connection}")
        for statement in (view, read):
            self._wait_ended(statement)
        if self._get_statement(view)["state"] == "success":
            error = self._get_statement(read)["error"] or {}
            assert error.get("condition") != "TABLE_OR_VIEW_NOT_FOUND", read
            assert error.get("code") != "connection_not_found", read

    def purge(self) -> None:
        """Purge what is older than a year: nothing of this history."""
        answer = self._request("POST", "/history/purge", json={"older_than": "365d"})
        assert answer.json()["statements"] == 0, answer.text

    def view(self) -> None:
        """Create, refresh, read and drop a materialized view. Readers never see a part of it."""
        name = f"v_{self._new_mark()}"
        created = self._submit(f"CREATE MATERIALIZED VIEW {name} AS SELECT id FROM range(1000)")
        self._wait_ended(created)
        if self._get_statement(created)["state"] != "success":
            return
        refresh = self._submit(f"REFRESH MATERIALIZED VIEW {name}")
        while True:
            read = self._submit(f"SELECT count(*) FROM {name}")
            self._wait_ended(read)
            result = self._get_statement(read)
            if result["state"] == "success":
                answer = self._request("GET", f"/statements/{read}/result").json()
                assert answer["rows"] == [["1000"]], answer
            if self._get_statement(refresh)["state"] in ENDED:
                break
        self._submit(f"DROP MATERIALIZED VIEW {name}")

    def local(self) -> None:
        """Submit a statement that a node executes at once, beside one that a driver executes."""
        first = self._submit(SLOW)
        self._submit(f"CANCEL STATEMENT '{first}'")

    def timeout(self) -> None:
        self._submit(LONG, timeout="500ms")

    def queue_timeout(self) -> None:
        self._submit(SLOW)
        self._submit("SHOW TABLES", queue_timeout="500ms")

    def stuck(self) -> None:
        """Cancel a statement that ends only with its driver."""
        statement = self._submit(UNCANCELLABLE)
        self._wait_started(statement)
        self._request("POST", f"/statements/{statement}/cancel")
        self._wait_ended(statement)

    def stuck_beside(self) -> None:
        """Cancel a stuck statement: its driver has another one and ends only by force."""
        beside = self._submit(LONG)
        statement = self._submit(UNCANCELLABLE)
        self._wait_started(statement)
        self._request("POST", f"/statements/{statement}/cancel")
        self._wait_until(
            lambda: self._has_cancel_note(statement), "the cancel of a stuck statement is noted"
        )
        self._request("POST", f"/statements/{statement}/cancel", params={"force": True})
        self._request("POST", f"/statements/{beside}/cancel")
        self._wait_ended(statement)

    def batch(self) -> None:
        self._wait_ended(self._submit("SELECT 3", kind="batch", session=None))

    def own_session(self) -> None:
        """Submit without a session: an embedded node closes the new session when it stops."""
        self._wait_started(self._submit(LONG, session=None))

    def renew_session(self) -> None:
        """Close the lane's session and run a statement in a new one."""
        base = self._lane.base
        if base is not None:
            self._request("DELETE", f"/sessions/{base}")
            self._wait_until(
                lambda: self._get_session(base)["state"] in {"dead", "failed"},
                "the session is closed",
            )
        self._lane.base = None
        self._wait_ended(self._submit("SELECT 4"))

    def long_queue(self) -> None:
        """Close a session whose queue ends in several transactions."""
        session = self._open()
        for _ in range(CHUNK + 5):
            self._submit(SLOW, session=session)
        self._request("DELETE", f"/sessions/{session}")
        self._wait_until(
            lambda: self._get_session(session)["state"] == "dead", "a long queue has ended"
        )

    def full_queue(self) -> None:
        """Submit to a session until a submit is refused, then close the session."""
        session = self._open()
        self._wait_until(lambda: self._is_refused(session), "the queue of a session is full")
        self._request("DELETE", f"/sessions/{session}")

    def aged(self) -> None:
        session = self._open(ttl="1s")
        self._wait_until(
            lambda: self._get_session(session)["state"] == "dead", "the session has reached its ttl"
        )

    def refused(self) -> None:
        self._fail_start("refused")

    def missing(self) -> None:
        self._fail_start("missing")

    def killed_node(self) -> None:
        node = self._choose_node()
        node.kill()
        node.ensure()

    def bounce(self) -> None:
        """Stop a node with SIGTERM and start it again."""
        node = self._choose_node()
        node.stop()
        node.ensure()

    def early_driver(self) -> None:
        """Start an embedded node again that starts a driver before its store is open."""
        node = self._choose_node()
        node.stop()
        node.ensure("--open-pool")

    def forgotten_node(self) -> None:
        """Freeze a node of a cluster until an operator can confirm that it is gone."""
        node = self._choose_node()
        others = [each for each in self._lane.nodes if each is not node]
        if not others:
            return
        node.ensure()
        address = str(node.http.base_url).rstrip("/")
        with node.frozen():
            self._wait_until(
                lambda: self._confirm_gone(address, others[0]), f"the node at {address} is gone"
            )

    def recovery(self) -> None:
        """Let the drivers resolve what lost drivers have left, without a pause."""
        answer = self._request("POST", "/recovery")
        assert answer.is_success, answer.text

    def drained_node(self) -> None:
        """Let a node drain, and wait until it has left. It is started again."""
        self._request("POST", "/nodes/no_missing/gone", json={"confirmed": True})
        up = [each for each in self._list_nodes() if each["state"] == "up"]
        if not up:
            return
        drained = self._random.choice(up)
        self._request("POST", f"/nodes/{drained['id']}/drain")
        self._wait_until(
            lambda: (
                not any(
                    each["started_at"] == drained["started_at"] and each["ended_at"] is None
                    for each in self._list_nodes()
                )
            ),
            f"the node {drained['id']} has left",
        )

    def store_restart(self) -> None:
        self._submit(SLOW)
        self._lane.restart_store()

    def short_freeze(self) -> None:
        """Freeze a node for less than a lease, while a statement runs."""
        self._freeze_node(0.5 * LEASE_SECONDS)

    def long_freeze(self) -> None:
        """Freeze a node for more than a lease, while a statement runs."""
        self._freeze_node(2.5 * LEASE_SECONDS)

    def freeze_all(self) -> None:
        """Freeze every node for more than a lease at the same time, like a suspended machine."""
        self._wait_started(self._submit(SLOW))
        threads = [
            threading.Thread(target=node.freeze, args=(2.5 * LEASE_SECONDS,))
            for node in self._lane.nodes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def terminated_driver(self) -> None:
        """Send SIGTERM to the driver while it runs a query."""
        statement = self._submit(SLOW)
        self._wait_started(statement)
        for driver in find_drivers(self._lane.folder):
            if driver.session == self._lane.base:
                with contextlib.suppress(psutil.NoSuchProcess):
                    driver.process.terminate()
        self._wait_ended(statement)

    def lost_start(self) -> None:
        """Kill a driver that starts, alone and then with its node: the session must stay."""
        self._wait_started(self._submit(SLOW))
        base = self._lane.base
        assert base is not None
        end({driver.process for driver in self._find_drivers(base)})
        query = self._submit("SELECT 5", session=base)
        for is_with_node in (False, True):
            self._wait_until(
                lambda: bool(self._find_drivers(base)) or self._has_ended(query),
                f"a driver of {base} starts",
            )
            if is_with_node:
                node = self._choose_node()
                node.kill()
            end({driver.process for driver in self._find_drivers(base)})
            self._lane.ensure_nodes()
        self._wait_ended(query)
        if not self._lane.plan.read_actions():
            state = self._get_session(base)["state"]
            assert state != "failed", f"the session {base} has failed after two lost starts"

    def lost_host(self) -> None:
        """End one of two hosts with its node and its drivers, and start it again."""
        self._wait_started(self._submit(SLOW))
        node = self._choose_node()
        node.lose_host()
        node.ensure()

    # Helpers of the steps

    def _find_drivers(self, session: str) -> list[DriverProcess]:
        drivers = find_drivers(self._lane.folder)
        return [driver for driver in drivers if driver.session == session]

    def _has_ended(self, statement: str) -> bool:
        return self._get_statement(statement)["state"] in ENDED

    def _confirm_gone(self, address: str, other: ChaosNode) -> bool:
        """Ask another node to record that the node at an address is gone. Return whether it is."""
        try:
            listed = other.http.get("/api/v1/nodes").json()["items"]
            node_id = next(each["id"] for each in listed if each["address"] == address)
            return other.http.post(
                f"/api/v1/nodes/{node_id}/gone", json={"confirmed": True}
            ).is_success
        except (httpx.TransportError, RuntimeError):
            other.ensure()
            return False

    def _run_stream(self, sink: str, actions: list[str]) -> None:
        """Start a streaming query and act on it. The query may fail with its session only."""
        self._submit("CREATE OR REPLACE STREAM beat FROM rate OPTIONS ('rowsPerSecond' = '10')")
        name = f"q{self._new_mark()}"
        statement = self._submit(f"SAVE STREAM beat TO {sink} IDENTIFIED BY {name}")
        self._wait_ended(statement)
        if self._get_statement(statement)["state"] != "success":
            return
        for action in actions:
            if not self._act_on_stream(name, action, _ENDS_OF_ACTIONS[action]):
                return
            if action == "pause":
                # A driver repeats its last report during this time.
                self._wait_ended(self._submit(SLOW))
                paused = self._get_stream(name)
                assert paused["state"] in {"paused", "failed"}, f"a pause does not last: {paused}"

    def _act_on_stream(self, name: str, action: str, state: str) -> bool:
        """Act on a query and wait until it has a state. Return False if it has failed."""
        attempt = self._get_stream(name)["attempt"] + (action == "restart")
        self._request("POST", f"/streams/{name}/{action}")

        def has_ended() -> bool:
            query = self._get_stream(name)
            is_wrong = state == "paused" and query["state"] == "stopped"
            assert not is_wrong, f"a pause became the end of a query: {query}"
            is_reached = query["state"] == state and query["attempt"] >= attempt
            return is_reached or query["state"] == "failed"

        self._wait_until(has_ended, f"{name} is {state}")
        return bool(self._get_stream(name)["state"] != "failed")

    def _freeze_node(self, seconds: float) -> None:
        self._wait_started(self._submit(SLOW))
        self._choose_node().freeze(seconds)

    def _fail_start(self, profile: str) -> None:
        session = self._open(profile=profile)
        self._wait_until(
            lambda: self._get_session(session)["state"] == "failed", "the session has failed"
        )

    def _is_refused(self, session: str) -> bool:
        """Submit a statement; return whether the queue of the session was full."""
        text = f"{SLOW} /* {self._new_mark()} */"
        body = {"statement": text, "session": session}
        key = {"Idempotency-Key": self._new_mark()}
        answer = self._request("POST", "/statements", json=body, headers=key)
        if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return True
        assert answer.is_success, answer.text
        self.answers[text].append(answer.json()["id"])
        return False

    def _has_cancel_note(self, statement: str) -> bool:
        response = self._get_statement(statement)
        return response["state"] in ENDED or response["cancel_note"] is not None

    def _check_result(self, statement: str) -> None:
        """Check that any node can read the result of a success until its retention ends."""
        if self._get_statement(statement)["state"] == "success":
            answer = self._request("GET", f"/statements/{statement}/result")
            assert answer.status_code in {200, 410}, answer.text

    def _close_other_sessions(self) -> None:
        """Close all sessions but the lane's and wait until all are at rest."""
        live = ["not_started", "starting", "running", "recovering", "closing"]
        page = self._request("GET", "/sessions", params={"state": live}).json()["items"]
        others = [session["id"] for session in page if session["id"] != self._lane.base]
        for session in others:
            self._request("DELETE", f"/sessions/{session}")
        for session in [*others, *([self._lane.base] if self._lane.base else [])]:
            self._wait_until(partial(self._is_at_rest, session), f"session {session} is at rest")

    def _is_at_rest(self, session: str) -> bool:
        body = self._get_session(session)
        state = body["state"]
        if state == "running":
            # A lost host ends its drivers; the takeover must not fall into the next history.
            drivers = find_drivers(self._lane.folder)
            if (session, body["epoch"]) not in {(each.session, each.epoch) for each in drivers}:
                return False
        if state == "recovering":
            # A driver may be starting, for a statement that was cancelled meanwhile.
            rows = self._lane.read_rows().sessions
            return next(row for row in rows if row["id"] == session)["lease_until"] is None
        return state in (_RESTFUL if session == self._lane.base else {"dead", "failed"})

    def _find_survivors(self) -> list[DriverProcess]:
        """Return the driver processes and JVMs of sessions that have ended."""
        sessions = self._lane.read_rows().sessions
        ended = {row["id"] for row in sessions if row["state"] in SESSION.terminal}
        return [driver for driver in find_drivers(self._lane.folder) if driver.session in ended]

    def _find_orphans(self) -> list[DriverProcess]:
        """Return the driver processes that no session owns."""
        base = self._lane.base
        epoch = self._get_session(base)["epoch"] if base else None
        drivers = find_drivers(self._lane.folder)
        return [driver for driver in drivers if (driver.session, driver.epoch) != (base, epoch)]
