"""Time of a claim in stores with few and with many finished statements."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from tests.support.postgres import running_server

from benchmarks.measure import Sample, interleaved
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import DriverLease, NewSession
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_transitions, statements

FEW, MANY = 1_000, 1_000_000
ACTOR = "bench"
WARM_UP, ROUNDS = 20, 200

# Copies of one finished statement in the same session. They differ in id and ordinal only.
NUMBERS = {
    "sqlite": "WITH RECURSIVE numbers(n) AS "
    "(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) ",
    "postgresql": "WITH numbers AS (SELECT generate_series(1, {count}) AS n) ",
}
COPY = (
    "INSERT INTO statements ({columns}) {numbers}"
    "SELECT {values} FROM statements CROSS JOIN numbers WHERE id = '{id}'"
)
NEW_VALUES = {
    "sqlite": {
        "id": "substr(id, 1, 27) || printf('%08x', n)",
        "ordinal": "ordinal + n",
    },
    "postgresql": {
        "id": "substr(id, 1, 27) || lpad(to_hex(n), 8, '0')",
        "ordinal": "ordinal + n",
    },
}


class ClaimBenchmark:
    """A store with one running session, all of whose statements have ended."""

    def __init__(self, url: str, finished: int, *, owner: str = ACTOR) -> None:
        self._owner = owner
        self._database = Database.open(url)
        self._database.migrate()
        self._session = new_id("se")
        with self._database.write("benchmark") as tx:
            sessions.insert(tx, NewSession(id=self._session, owner=owner), actor=ACTOR)
            epoch = takeovers.claim_launch(
                tx, self._session, node=ACTOR, seconds=3600, token_hash="unused"
            )
            assert epoch is not None
            self._lease = DriverLease(self._session, epoch)
            sessions.transition(tx, self._session, SessionState.RUNNING, actor=ACTOR, epoch=epoch)
        self.claim()
        self._copy_finished(url, finished)

    def claim(self) -> float:
        """Submit a statement, claim it and end it. Return the seconds of the claim."""
        spec = StatementSpec(text="SELECT 1")
        new = NewStatement(id=new_id("st"), session_id=self._session, owner=self._owner, spec=spec)
        with self._database.write("benchmark") as tx:
            statements.insert(tx, new, actor=ACTOR)
        start = time.perf_counter()
        with self._database.write("benchmark") as tx:
            claimed = statement_transitions.claim_next(tx, self._lease)
        seconds = time.perf_counter() - start
        assert claimed is not None
        assert claimed.statement.id == new.id
        with self._database.write("benchmark") as tx:
            for state in (StatementState.RUNNING, StatementState.SUCCESS):
                statement_transitions.transition(tx, new.id, state, actor=ACTOR, lease=self._lease)
        self._last = new.id
        return seconds

    def close(self) -> None:
        self._database.close()

    def _copy_finished(self, url: str, count: int) -> None:
        dialect = self._database.dialect
        names = [column.name for column in statements.statements.columns]
        text = COPY.format(
            columns=", ".join(names),
            numbers=NUMBERS[dialect].format(count=count),
            values=", ".join(NEW_VALUES[dialect].get(name, name) for name in names),
            id=self._last,
        )
        update_ordinal = f"UPDATE sessions SET next_ordinal = next_ordinal + {count}"
        if dialect == "sqlite":
            with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
                file.execute(text)
                file.execute(update_ordinal)
                file.execute("ANALYZE")
            file.close()
        else:
            with psycopg.connect(url, autocommit=True) as server:
                server.execute(text)
                server.execute(update_ordinal)
                server.execute("VACUUM ANALYZE")


def claim_times(folder: Path) -> dict[str, dict[int, Sample]]:
    """Return the seconds of a claim, by store and by number of finished statements."""
    samples = {"SQLite": _measure(*(f"sqlite:///{folder / str(n)}.db" for n in (FEW, MANY)))}
    with running_server() as server:
        samples["PostgreSQL"] = _measure(*(server.url(server.new_database()) for _ in (FEW, MANY)))
    return samples


def _measure(url_of_few: str, url_of_many: str) -> dict[int, Sample]:
    with ExitStack() as stack:
        few = stack.enter_context(_open(url_of_few, FEW))
        many = stack.enter_context(_open(url_of_many, MANY))
        samples = interleaved(
            {"few": few.claim, "many": many.claim}, warm_up=WARM_UP, rounds=ROUNDS
        )
    return {FEW: samples["few"], MANY: samples["many"]}


@contextmanager
def _open(url: str, finished: int) -> Iterator[ClaimBenchmark]:
    claims = ClaimBenchmark(url, finished)
    try:
        yield claims
    finally:
        claims.close()
