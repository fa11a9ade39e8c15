"""A store that goes away: every call says so, and all is well when it is back."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from tests.support.postgres import PostgresServer
from tests.support.store import new_session

from headrace.errors import StoreUnavailable
from headrace.model.lifecycle import SessionState
from headrace.store import sessions
from headrace.store.database import Database


@pytest.fixture
def remote(stoppable_url: str) -> Iterator[Database]:
    """A PostgreSQL store whose server may be stopped."""
    database = Database.open(stoppable_url, pool_size=3, connect_timeout=2)
    yield database
    database.close()


def test_a_store_that_is_down_says_so_and_comes_back(
    remote: Database, stoppable_postgres: PostgresServer
) -> None:
    session_id = new_session(remote)
    stoppable_postgres.stop()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            remote.ping()
        with pytest.raises(StoreUnavailable), remote.write() as tx:
            sessions.get(tx, session_id)
        with pytest.raises(StoreUnavailable):
            remote.migrate()
    stoppable_postgres.start()
    remote.ping()
    with remote.write() as tx:
        assert sessions.transition(tx, session_id, SessionState.CLOSING, who="test")


def test_a_restart_between_two_calls_goes_unnoticed(
    remote: Database, stoppable_postgres: PostgresServer
) -> None:
    session_id = new_session(remote)
    stoppable_postgres.stop()
    stoppable_postgres.start()
    with remote.read() as tx:
        assert sessions.get(tx, session_id) is not None


def test_a_store_that_dies_in_a_transaction_undoes_it(
    remote: Database, stoppable_postgres: PostgresServer
) -> None:
    session_id = new_session(remote)
    with pytest.raises(StoreUnavailable), remote.write() as tx:
        assert sessions.transition(tx, session_id, SessionState.CLOSING, who="test")
        stoppable_postgres.stop()
    count = remote.write_count
    stoppable_postgres.start()
    with remote.read() as tx:
        session = sessions.get(tx, session_id)
    assert session is not None
    assert session.state is SessionState.NOT_STARTED
    assert remote.write_count == count


def test_a_full_pool_is_an_outage(remote: Database) -> None:
    full = pytest.raises(StoreUnavailable, match="free connection")
    with remote.read(), remote.read(), remote.read(), full, remote.read():
        pass
    remote.ping()


def test_a_statement_that_takes_too_long_is_an_outage(remote: Database) -> None:
    with pytest.raises(StoreUnavailable), remote.write() as tx:
        tx.execute(text("SET LOCAL statement_timeout = 20"))
        tx.execute(text("SELECT pg_sleep(10)"))
    remote.ping()


def test_a_lock_that_is_not_let_go_is_an_outage(remote: Database) -> None:
    session_id = new_session(remote)
    lock = text("SELECT 1 FROM sessions WHERE id = :id FOR UPDATE")
    with remote.write() as here:
        here.execute(lock, {"id": session_id})
        with pytest.raises(StoreUnavailable), remote.write() as there:
            there.execute(text("SET LOCAL lock_timeout = 20"))
            there.execute(lock, {"id": session_id})
        assert sessions.transition(here, session_id, SessionState.CLOSING, who="test")


def test_nobody_listening_is_an_outage() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = Database.open(f"postgresql://nobody@127.0.0.1:{port}/nothing")
    with pytest.raises(StoreUnavailable):
        store.migrate()
    store.close()


def test_a_mistake_in_sql_is_no_outage(store: Database) -> None:
    with pytest.raises(Exception, match="nothing") as caught, store.read() as tx:
        tx.execute(text("SELECT * FROM nothing"))
    assert not isinstance(caught.value, StoreUnavailable)
    store.ping()
