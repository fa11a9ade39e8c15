"""The load of users: queries, INSERTs, tables, batch statements and refreshes of a view.

All requests go through nginx. A worker is a user: it has a client and a session of its own, and
waits for its statements before it submits the next ones.
"""

from __future__ import annotations

import random
import threading
import traceback
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

from tests.faults.chaos_cluster.host_cluster import HostCluster
from tests.faults.chaos_cluster.record import Accepted, LoadRecord, ViewRead, Work
from tests.support.node import ENDED
from tests.support.waiting import wait_until

from headrace.client.http import Client, Json
from headrace.errors import HeadraceError, NodeUnreachable, SessionEnded, SessionNameExists

ROWS = 20
"""Rows of an INSERT and of a CTAS, in two tasks."""
VIEW_ROWS = 1000
TABLE = "inserted"
VIEW = "generations"
_END_SECONDS = 240.0
_SLOW = "WHERE reflect('java.lang.Thread', 'sleep', 50L) IS NOT NULL"


def rows_text(number: int) -> str:
    """Return a query with the rows of an INSERT or CTAS. It takes half a second."""
    return f"SELECT id, {number}L AS n FROM range(0, {ROWS}, 1, 2) {_SLOW}"


def table_name(number: int) -> str:
    """Return the name of the table of a CTAS."""
    return f"made_{number}"


class UserSession:
    """A named session, and the statements that a user submits to it."""

    def __init__(self, cluster: HostCluster, record: LoadRecord, name: str, **fields: Any) -> None:
        self._record = record
        self._name = name
        self._fields = fields
        self._count = 0
        self.client: Client = cluster.connect()
        self.id = self._open()

    def submit(self, work: Work, text: str, *, number: int | None = None, **fields: Any) -> str:
        """Submit a statement until the cluster accepts it, and return its id."""
        number = number or self._record.next_number()
        marked = f"{text} /* {number} */"
        key = f"{self._name}-{number}"
        while True:
            body = {"statement": marked, "session": self.id, **fields}
            try:
                statement = self.client.submit(body, key=key)
            except SessionEnded:
                self.id = self._open()
                # The Idempotency-Key belongs to the refused request, which named another session.
                key += "+"
                continue
            accepted = Accepted(statement["id"], work, number, marked)
            with self._record.writing():
                self._record.accepted.append(accepted)
            return accepted.id

    def wait(self, statement_id: str) -> Json:
        """Wait until a statement has ended, and return it."""

        def ended() -> Json | None:
            statement = self.client.statement(statement_id, wait=5.0)
            return statement if statement["state"] in ENDED else None

        statement = wait_until(ended, seconds=_END_SECONDS, what=f"{statement_id} has ended")
        assert statement is not None
        return statement

    def run(self, work: Work, text: str, **fields: Any) -> Json:
        """Submit a statement, and return it when it has ended."""
        return self.wait(self.submit(work, text, **fields))

    def must_run(self, work: Work, text: str) -> Json:
        """Run a statement that can be repeated until no fault ends it."""
        while (statement := self.run(work, text))["state"] != "success":
            error = statement["error"] or {}
            assert error.get("code") in {"driver_lost", "session_failed"}, statement
        return statement

    def read(self, text: str) -> list[list[Any]]:
        """Return all rows of a query. Large numbers are plain numbers."""
        statement = self.must_run(Work.CHECK, text)
        rows: list[list[Any]] = []
        chunk: int | None = 0
        while chunk is not None:
            page = self.client.rows(statement["id"], chunk, plain_numbers=True)
            rows += page["rows"]
            chunk = page["next_chunk"]
        return rows

    def _open(self) -> str:
        """Create the session; return its id. Its unique name finds it if the answer was lost."""
        self._count += 1
        name = f"{self._name}-{self._count}"

        def create() -> Json | None:
            try:
                return self.client.create_session({"name": name, **self._fields})
            except SessionNameExists:
                return self.client.session(name)
            except NodeUnreachable:
                # The node may have created the session before it died.
                return None

        session = wait_until(create, seconds=_END_SECONDS, what=f"the session {name} exists")
        assert session is not None
        return str(session["id"])


class Worker(ABC):
    """A user who works until the load stops."""

    def __init__(self, session: UserSession, record: LoadRecord, seed: str) -> None:
        self._session = session
        self._record = record
        self._chance = random.Random(f"{seed}.{type(self).__name__}")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin no further turn."""
        self._stopping.set()

    def join(self) -> None:
        """Wait until the statements of the last turn have ended."""
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.take_turn()
        except (HeadraceError, AssertionError):
            with self._record.writing():
                self._record.errors.append(f"{self._thread.name}: {traceback.format_exc()}")

    @abstractmethod
    def take_turn(self) -> None:
        """Submit some statements, and wait until they have ended."""


class Analyst(Worker):
    """Reads: small, stored and held results, and the materialized view."""

    def take_turn(self) -> None:
        session = self._session
        number = self._record.next_number()
        texts = {
            Work.QUERY: f"SELECT id, {number}L AS n FROM range(10)",
            Work.STORED_QUERY: f"SELECT id, {number}L AS n FROM range(0, 20000, 1, 2)",
            Work.HELD_QUERY: f"SELECT id, {number}L AS n FROM range(0, 1000, 1, 2)",
            Work.VIEW_READ: f"SELECT count(*), min(made), max(made) FROM {VIEW}",
        }
        work = self._chance.choice([Work.QUERY, *texts])
        dispositions = {Work.STORED_QUERY: "stored", Work.HELD_QUERY: "memory"}
        fields = {"result": dispositions[work]} if work in dispositions else {}
        statement = session.run(work, texts[work], number=number, **fields)
        if work is Work.VIEW_READ and statement["state"] == "success":
            [row] = session.client.rows(statement["id"], plain_numbers=True)["rows"]
            with self._record.writing():
                self._record.view_reads.append(ViewRead(*map(int, row)))


class Loader(Worker):
    """Writes: INSERTs into one table, and new tables. Some CTAS fail half-way."""

    def take_turn(self) -> None:
        ids = [self._submit() for _ in range(self._chance.randint(1, 3))]
        for statement_id in ids:
            self._session.wait(statement_id)

    def _submit(self) -> str:
        number = self._record.next_number()
        work = self._chance.choices([Work.INSERT, Work.CTAS, Work.FAILING_CTAS], [6, 3, 1])[0]
        rows = rows_text(number)
        if work is Work.INSERT:
            return self._session.submit(work, f"INSERT INTO {TABLE} {rows}", number=number)
        if work is Work.FAILING_CTAS:
            rows = rows.replace(
                "SELECT id", f"SELECT IF(id = {ROWS - 1}, raise_error('no'), id) AS id"
            )
        text = f"CREATE TABLE {table_name(number)} USING parquet AS {rows}"
        return self._session.submit(work, text, number=number)


class BatchUser(Worker):
    """Submits batch statements, each of which has a driver of its own, and refreshes the view."""

    def take_turn(self) -> None:
        number = self._record.next_number()
        texts = {
            Work.BATCH_QUERY: f"SELECT id, {number}L AS n FROM range(10)",
            Work.BATCH_INSERT: f"INSERT INTO {TABLE} {rows_text(number)}",
            Work.REFRESH: f"REFRESH MATERIALIZED VIEW {VIEW}",
        }
        work = self._chance.choice(list(texts))
        fields = {} if work is Work.REFRESH else {"kind": "batch"}
        statement = self._session.run(work, texts[work], number=number, **fields)
        if work is Work.REFRESH:
            # It ran in the pool session, which stays open.
            return
        session = statement["session_id"]
        # Only one driver for batch statements at a time: wait for the end of the last one.
        wait_until(
            lambda: self._session.client.session(session)["state"] in {"dead", "failed"},
            seconds=_END_SECONDS,
            what=f"the session {session} has ended",
            every=0.2,
        )


def define_tables(session: UserSession) -> None:
    """Create the table of the INSERTs, and the view. Its rows name the time of their refresh."""
    session.must_run(Work.SETUP, f"CREATE TABLE {TABLE} (id BIGINT, n BIGINT) USING parquet")
    session.must_run(
        Work.SETUP,
        f"CREATE MATERIALIZED VIEW {VIEW} AS"
        f" SELECT id, unix_micros(current_timestamp()) AS made FROM range(0, {VIEW_ROWS}, 1, 2)",
    )


def close_sessions(cluster: HostCluster) -> None:
    """Close all live sessions, and wait until all have ended."""
    with cluster.connect() as client:
        for state in ("not_started", "starting", "running", "recovering"):
            for session in client.sessions(state=state, limit=1000)["items"]:
                with suppress(SessionEnded):
                    client.close_session(session["id"])
    wait_until(
        lambda: all(row["state"] in {"dead", "failed"} for row in cluster.read_rows().sessions),
        seconds=_END_SECONDS,
        what="all sessions have ended",
        every=0.5,
    )
