"""Connections of clients in the store, and the order of their statements."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import update
from tests.support.store import OWNER, new_statement, running_session, waits_for_lock
from tests.support.waiting import wait_until

from headrace.model.connection import ConnectionSpec, ConnectionState, Cursor
from headrace.model.lifecycle import StatementState
from headrace.model.session import DriverLease, Snapshot
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import connections
from headrace.store.statements import cursors, statement_transitions
from headrace.store.statements.statement_transitions import claim_next
from headrace.store.tables import connections as table

SPEC = ConnectionSpec(database="sales", conf={"spark.a": "1"})


def open_connection(store: Database) -> str:
    with store.write("test") as tx:
        return connections.insert_connection(tx, OWNER, "test", SPEC).id


def claim(store: Database, lease: DriverLease) -> str | None:
    with store.write("test") as tx:
        claimed = claim_next(tx, lease)
    return None if claimed is None else claimed.statement.id


def test_statements_of_a_connection_run_one_after_the_other_and_those_of_others_beside(
    store: Database,
) -> None:
    lease = running_session(store, pool=True, parallelism=3)
    first, second = open_connection(store), open_connection(store)
    one, two, of_second, of_none = (
        new_statement(store, lease.session_id, connection=each)
        for each in (first, first, second, None)
    )
    assert [claim(store, lease) for _number in range(4)] == [one, of_second, of_none, None]
    with store.write("test") as tx:
        for target in (StatementState.RUNNING, StatementState.SUCCESS):
            assert statement_transitions.transition(tx, one, target, actor="test", lease=lease)
    assert [claim(store, lease) for _number in range(2)] == [two, None]


def test_a_connection_keeps_its_state_until_it_is_closed(store: Database) -> None:
    connection = open_connection(store)
    snapshot = Snapshot(catalog="spark_catalog", namespace=["sales"], conf={"spark.b": "2"})
    with store.write("test") as tx:
        assert connections.use(tx, connection)
        connections.save_snapshot(tx, connection, snapshot, changed_by="st_1")
    with store.read() as tx:
        state = connections.read_state(tx, connection)
    assert state is not None
    assert (state.spec, state.snapshot, state.changed_by) == (SPEC, snapshot, "st_1")
    with store.write("test") as tx:
        assert connections.close(tx, connection)
        assert not connections.close(tx, connection)
        connections.save_snapshot(tx, connection, snapshot, changed_by="st_1")
        assert not connections.use(tx, connection)
        closed, state = connections.get(tx, connection), connections.read_state(tx, connection)
    assert closed is not None
    assert closed.ended_at is not None
    assert state is not None
    assert state.is_forgotten


def test_a_closed_connection_keeps_its_state_for_the_statements_that_still_run_in_it(
    store: Database,
) -> None:
    lease = running_session(store, pool=True)
    connection = open_connection(store)
    statement = new_statement(store, lease.session_id, connection=connection)
    before, after = (
        Snapshot(catalog="spark_catalog", namespace=[name]) for name in ("sales", "shops")
    )
    with store.write("test") as tx:
        connections.save_snapshot(tx, connection, before, changed_by="st_1")
        assert connections.close(tx, connection)
        assert connections.read_state(tx, connection) == ConnectionState(
            id=connection, spec=SPEC, snapshot=before, changed_by="st_1"
        )
        connections.save_snapshot(tx, connection, after, changed_by="st_2")
        assert connections.read_state(tx, connection) == ConnectionState(
            id=connection, spec=SPEC, snapshot=after, changed_by="st_2"
        )
        tx.execute(update(table).values(ended_at=clock(-100)))
        assert connections.delete_ended(tx, 60, 10) == {"connections": 0}
        assert connections.forget_closed(tx, 10) == 0
    assert claim(store, lease) == statement
    with store.write("test") as tx:
        for target in (StatementState.RUNNING, StatementState.SUCCESS):
            assert statement_transitions.transition(
                tx, statement, target, actor="test", lease=lease
            )
        assert connections.forget_closed(tx, 10) == 1
        assert connections.forget_closed(tx, 10) == 0
        state = connections.read_state(tx, connection)
        assert state is not None
        assert state.is_forgotten
        assert connections.delete_ended(tx, 60, 10) == {"connections": 1}


def test_open_connections_are_listed_in_pages_newest_first(store: Database) -> None:
    ids = [open_connection(store) for _number in range(4)]
    with store.write("test") as tx:
        connections.close(tx, ids[1])
        other = connections.insert_connection(tx, "other", "test", SPEC).id
        page = connections.page_open(tx, [OWNER], before=None, limit=2)
        assert [each.id for each in page] == [ids[3], ids[2]]
        page = connections.page_open(tx, [OWNER], before=ids[2], limit=2)
        assert [each.id for each in page] == [ids[0]]
        page = connections.page_open(tx, None, before=None, limit=1)
        assert [each.id for each in page] == [other]


def test_idle_connections_without_a_live_statement_are_closed_and_deleted_later(
    store: Database,
) -> None:
    lease = running_session(store, pool=True)
    old, busy, fresh = (open_connection(store) for _number in range(3))
    new_statement(store, lease.session_id, connection=busy)
    with store.write("test") as tx:
        change = update(table).where(table.c.id.in_([old, busy]))
        tx.execute(change.values(last_used_at=clock(-100)))
    with store.write("test") as tx:
        assert connections.close_idle(tx, 60, 10) == 1
        assert connections.close_idle(tx, 60, 10) == 0
        page = connections.page_open(tx, [OWNER], before=None, limit=10)
        assert [each.id for each in page] == [fresh, busy]
        assert connections.delete_ended(tx, 60, 10) == {"connections": 0}
    with store.write("test") as tx:
        tx.execute(update(table).where(table.c.id == old).values(ended_at=clock(-100)))
        assert connections.delete_ended(tx, 60, 10) == {"connections": 1}
        assert connections.get(tx, old) is None


@pytest.mark.postgres
def test_a_connection_that_is_used_while_idle_ones_are_closed_stays_open(
    postgres_url: str,
) -> None:
    with (
        closing(Database.open(postgres_url, connect_timeout=60)) as store,
        ThreadPoolExecutor(1) as threads,
    ):
        connection = open_connection(store)
        with store.write("test") as tx:
            tx.execute(update(table).values(last_used_at=clock(-100)))

        def close_idle() -> int:
            with store.write("test") as tx:
                return connections.close_idle(tx, 60, 10)

        with store.write("test") as tx:
            assert connections.use(tx, connection)
            closed = threads.submit(close_idle)
            wait_until(lambda: waits_for_lock(store), what="the sweep waits for the submit")
        assert closed.result() == 0
        with store.read() as tx:
            assert [each.id for each in connections.page_open(tx, None, before=None, limit=9)] == [
                connection
            ]


def test_a_position_is_stored_by_one_of_two_nodes_that_read_the_same_one(store: Database) -> None:
    statement = new_statement(store, running_session(store).session_id)
    first, second, third = Cursor(0, 10, 1), Cursor(10, 20, 2), Cursor(10, 15, 2)
    saves = [(first, None, True), (second, None, False), (second, first, True)]
    saves += [(third, first, False), (third, second, True)]
    for cursor, previous, is_saved in saves:
        with store.write("test") as tx:
            assert cursors.save(tx, statement, cursor, previous=previous) is is_saved
    with store.read() as tx:
        assert cursors.find(tx, statement) == third


@pytest.mark.postgres
def test_two_first_positions_at_once_do_not_fail(postgres_url: str) -> None:
    with (
        closing(Database.open(postgres_url, connect_timeout=60)) as store,
        ThreadPoolExecutor(1) as threads,
    ):
        statement = new_statement(store, running_session(store).session_id)

        def save() -> bool:
            with store.write("test") as tx:
                return cursors.save(tx, statement, Cursor(0, 5, 1), previous=None)

        with store.write("test") as tx:
            assert cursors.save(tx, statement, Cursor(0, 10, 1), previous=None)
            second = threads.submit(save)
            wait_until(lambda: waits_for_lock(store), what="the second save waits for the first")
        assert second.result() is False
