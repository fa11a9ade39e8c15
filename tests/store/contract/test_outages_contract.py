"""Contract of outages: calls raise StoreUnavailable, and work again once the database does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import text
from tests.support.ports import reserved_port
from tests.support.postgres import PostgresServer
from tests.support.store import new_session

from headrace.errors import StoreUnavailable
from headrace.model.lifecycle import SessionState
from headrace.store.database import Database
from headrace.store.sessions import sessions


@pytest.fixture
def remote(stoppable_url: str) -> Iterator[Database]:
    """Open a PostgreSQL store whose server the test may stop."""
    database = Database.open(stoppable_url, pool_size=3, connect_timeout=30)
    yield database
    database.close()


def test_calls_fail_while_the_server_is_down_and_work_afterwards(
    remote: Database, stoppable_postgres: PostgresServer
) -> None:
    session_id = new_session(remote)
    stoppable_postgres.stop()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            remote.ping()
        with pytest.raises(StoreUnavailable), remote.write("test") as tx:
            sessions.get(tx, session_id)
        with pytest.raises(StoreUnavailable):
            remote.migrate()
    stoppable_postgres.start()
    remote.ping()
    with remote.write("test") as tx:
        assert sessions.transition(tx, session_id, SessionState.CLOSING, actor="test")


def test_a_restart_of_the_server_between_two_calls_goes_unnoticed(
    remote: Database, stoppable_postgres: PostgresServer
) -> None:
    session_id = new_session(remote)
    stoppable_postgres.stop()
    stoppable_postgres.start()
    with remote.read() as tx:
        assert sessions.get(tx, session_id) is not None


def test_a_transaction_is_rolled_back_if_the_server_stops_before_its_commit(
    remote: Database, stoppable_postgres: PostgresServer
) -> None:
    session_id = new_session(remote)
    with pytest.raises(StoreUnavailable), remote.write("test") as tx:
        assert sessions.transition(tx, session_id, SessionState.CLOSING, actor="test")
        stoppable_postgres.stop()
    count = remote.write_count
    stoppable_postgres.start()
    with remote.read() as tx:
        session = sessions.get(tx, session_id)
    assert session is not None
    assert session.state is SessionState.NOT_STARTED
    assert remote.write_count == count


def test_a_full_pool_is_an_outage(stoppable_url: str) -> None:
    outage = pytest.raises(StoreUnavailable, match="free connection")
    with closing(Database.open(stoppable_url, pool_size=3, connect_timeout=2)) as remote:
        with remote.read(), remote.read(), remote.read(), outage, remote.read():
            pass
        remote.ping()


def test_a_query_that_exceeds_the_statement_timeout_is_an_outage(remote: Database) -> None:
    with pytest.raises(StoreUnavailable), remote.write("test") as tx:
        tx.execute(text("SET LOCAL statement_timeout = 20"))
        tx.execute(text("SELECT pg_sleep(10)"))
    remote.ping()


def test_a_lock_timeout_is_an_outage(remote: Database) -> None:
    session_id = new_session(remote)
    lock = text("SELECT 1 FROM sessions WHERE id = :id FOR UPDATE")
    with remote.write("test") as holder:
        holder.execute(lock, {"id": session_id})
        with pytest.raises(StoreUnavailable), remote.write("test") as waiter:
            waiter.execute(text("SET LOCAL lock_timeout = 20"))
            waiter.execute(lock, {"id": session_id})
        assert sessions.transition(holder, session_id, SessionState.CLOSING, actor="test")


def test_a_port_without_a_server_is_an_outage() -> None:
    with reserved_port() as port:
        store = Database.open(f"postgresql://nobody@127.0.0.1:{port}/nothing")
        with pytest.raises(StoreUnavailable):
            store.migrate()
        store.close()


def test_a_server_that_does_not_answer_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = Database.open(f"postgresql://postgres@127.0.0.1:{port}/x", connect_timeout=1)
        with pytest.raises(StoreUnavailable, match="timeout"):
            database.ping()
        database.close()


def test_a_mistake_in_sql_is_not_an_outage(store: Database) -> None:
    with pytest.raises(Exception, match="nothing") as caught, store.read() as tx:
        tx.execute(text("SELECT * FROM nothing"))
    assert not isinstance(caught.value, StoreUnavailable)
    store.ping()
