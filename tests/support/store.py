"""Stores for tests as fixtures, and sessions and statements in them in any state.

The fixture `store` runs a test once on SQLite and once on PostgreSQL: a contract suite uses it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Dialect, select, text, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from tests.support.postgres import Postgres, start_server
from tests.support.shared_services import shared

from headrace.errors import DriverLost
from headrace.model.event import Event
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import SESSION, STATEMENT, Lifecycle, S, SessionState, StatementState
from headrace.model.messages import LINK_VERSION
from headrace.model.result import Disposition, ResultReport
from headrace.model.session import DriverLease, NewSession, Session
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store import events, nodes, tables
from headrace.store.clock import CLOCK_FUNCTION, Instant, clock
from headrace.store.database import Database, Tx
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_transitions, statements
from headrace.store.tables import metadata

OWNER = "ada"
LOST = Failure.of(DriverLost())
INLINE = ResultReport(
    disposition=Disposition.INLINE,
    spark_schema={"type": "struct", "fields": []},
    row_count=1,
    byte_count=4,
    truncated=False,
    chunks=1,
    data=b"\x00row",
)


def _find_paths(lifecycle: Lifecycle[S]) -> dict[S, list[S]]:
    """Return the shortest series of transitions that leads from the initial to each state."""
    paths: dict[S, list[S]] = {lifecycle.initial: []}
    reached = [lifecycle.initial]
    for state in reached:
        for following in lifecycle.transitions:
            if lifecycle.allows(state, following) and following not in paths:
                paths[following] = [*paths[state], following]
                reached.append(following)
    return paths


STATEMENT_PATHS = _find_paths(STATEMENT)
SESSION_PATHS = _find_paths(SESSION)


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    """Return the PostgreSQL server of the whole test run. No test may stop it."""
    return Postgres(**shared("postgres", start_server))


@pytest.fixture(scope="session")
def migrated_postgres(postgres: Postgres) -> str:
    """Return the URL of a migrated database. Each test empties it before use."""
    url = postgres.url(postgres.new_database())
    migrate(url)
    return url


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a migrated file. Each test uses a copy."""
    file = tmp_path_factory.mktemp("template") / "headrace.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def postgres_url(migrated_postgres: str) -> str:
    """Return the URL of a PostgreSQL store that holds only the rows of its migrations."""
    kept = {"event_generations", "limit_locks", "schema_support"}
    with psycopg.connect(migrated_postgres) as connection:
        sequences = connection.execute("SELECT sequencename FROM pg_sequences").fetchall()
        # TRUNCATE would take ten times as long: it makes new files for each table and index.
        for table in reversed(metadata.sorted_tables):
            if table.name not in kept:
                connection.execute(f"DELETE FROM {table.name}")
        for (name,) in sequences:
            connection.execute(f"SELECT setval('{name}', 1, false)")
    return migrated_postgres


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """Return the URL of a migrated SQLite store without any row."""
    return f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'headrace.db')}"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a migrated, empty store: on SQLite, then on PostgreSQL."""
    fixture = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    # A write of a test may wait for long for its turn and for the disk.
    database = Database.open(request.getfixturevalue(fixture), connect_timeout=60)
    yield database
    database.close()


@pytest.fixture
def stopped_clock(store: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of the store, so that pauses and ages do not depend on the test's own time."""
    stop_clock(monkeypatch, store)


def stop_clock(patch: pytest.MonkeyPatch, *stores: Database) -> None:
    """Stop the clock of stores that have not executed anything yet.

    Other stores of this process keep their clock: a node of other tests may use one meanwhile.
    """
    now = datetime.now(UTC)
    dialects = [engine.dialect for each in stores for engine in (each._readers, each._writers)]
    compilers = clock._compiler_dispatcher.specs  # type: ignore[attr-defined]
    names = {
        "sqlite": (f"{CLOCK_FUNCTION}()", str(Instant().process_bind_param(now, sqlite.dialect()))),
        "postgresql": ("clock_timestamp()", f"TIMESTAMPTZ '{now.isoformat()}'"),
    }
    for name, (function, instant) in names.items():
        patch.setitem(compilers, name, _stop(compilers[name], dialects, function, instant))


def _stop(
    compile_clock: Callable[..., str], dialects: list[Dialect], function: str, instant: str
) -> Callable[..., str]:
    """Return a function that compiles the clock, for some dialects as a fixed instant."""

    def compile_stopped(element: clock, compiler: SQLCompiler, **options: Any) -> str:
        compiled = compile_clock(element, compiler, **options)
        is_stopped = any(compiler.dialect is each for each in dialects)
        return compiled.replace(function, instant) if is_stopped else compiled

    return compile_stopped


def migrate(url: str) -> None:
    """Create the tables of a store."""
    database = Database.open(url)
    database.migrate()
    database.close()


def register_node(store: Database, node_id: str = "no_1", *, seconds: float = 60.0) -> None:
    """Register a node that may judge drivers: it has been present for longer than a lease.

    Args:
        seconds: Length of a lease.
    """
    with store.write("test") as tx:
        nodes.register(
            tx,
            node_id,
            address="http://node.invalid",
            version="1",
            seconds=10 * seconds,
            link_version=LINK_VERSION,
        )
        set_present_since(tx, node_id, clock(-2 * seconds))


def read_changes(tx: Tx, *, entity: str | None = None, entity_id: str | None = None) -> list[Event]:
    """Return the committed events of an entity, or of a kind of entities, oldest first.

    `events.read` leaves out events while any transaction of the server is open, and the databases
    of other tests are on the same server.
    """
    table = tables.events
    wanted = table.c.entity_id == entity_id if entity is None else table.c.entity == entity
    rows = tx.execute(select(table).where(wanted).order_by(table.c.id)).mappings()
    return [events.to_event(row) for row in rows]


def set_present_since(tx: Tx, node_id: str, instant: clock) -> None:
    """Set the time at which a node came back."""
    node = update(tables.nodes).where(tables.nodes.c.id == node_id)
    tx.execute(node.values(present_since=instant))


def new_session(
    store: Database,
    state: SessionState = SessionState.NOT_STARTED,
    *,
    owner: str = OWNER,
    **fields: Any,
) -> str:
    """Insert a session in a state, at epoch 0, with fields of `NewSession`. Return its id."""
    with store.write("test") as tx:
        session_id = _insert_session(tx, owner, fields)
        for step in SESSION_PATHS[state]:
            assert sessions.transition(tx, session_id, step, actor="test")
    return session_id


def _insert_session(tx: Tx, owner: str, fields: dict[str, Any]) -> str:
    session_id = new_id("se")
    sessions.insert(tx, NewSession(id=session_id, owner=owner, **fields), actor=owner)
    return session_id


def running_session(
    store: Database,
    *,
    owner: str = OWNER,
    lease_seconds: float = 60.0,
    **fields: Any,
) -> DriverLease:
    """Insert a session whose driver has reported `hello`. Return the driver's lease."""
    # One transaction: a node of the store would otherwise launch the driver.
    with store.write("test") as tx:
        session_id = _insert_session(tx, owner, fields)
        epoch = takeovers.claim_launch(tx, session_id, node="no_1", seconds=60, token_hash="hash")
        assert epoch is not None
        assert sessions.transition(
            tx,
            session_id,
            SessionState.RUNNING,
            actor="driver",
            epoch=epoch,
            lease_seconds=lease_seconds,
        )
    return DriverLease(session_id, epoch)


def new_statement(
    store: Database,
    session_id: str,
    state: StatementState = StatementState.WAITING,
    *,
    owner: str = OWNER,
    lease: DriverLease | None = None,
    text: str = "SELECT 1",
    is_query: bool = False,
    connection: str | None = None,
) -> str:
    """Insert a statement in a state, in flight with the driver of `lease`. Return its id."""
    statement_id = new_id("st")
    with store.write("test") as tx:
        new = NewStatement(
            id=statement_id,
            session_id=session_id,
            owner=owner,
            spec=StatementSpec(text=text),
            is_query=is_query,
            connection_id=connection,
        )
        statements.insert(tx, new, actor=owner)
        for step in STATEMENT_PATHS[state]:
            fence = lease if STATEMENT_PATHS[state][0] is StatementState.LAUNCHED else None
            assert statement_transitions.transition(
                tx, statement_id, step, actor="test", lease=fence
            )
    return statement_id


def get_session(store: Database, session_id: str) -> Session:
    """Return a session, which must exist."""
    with store.read() as tx:
        session = sessions.get(tx, session_id)
    assert session is not None
    return session


def waits_for_lock(store: Database) -> bool:
    """Return whether a transaction of a PostgreSQL store waits for the lock of another one."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with store.read() as tx:
        return bool(tx.execute(query).scalar_one())
