"""Connections of clients in the store, and the order of their statements."""

from __future__ import annotations

from sqlalchemy import update
from tests.support.store import OWNER, running_session

from headrace.model.connection import ConnectionSpec
from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState
from headrace.model.session import DriverLease, Snapshot
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import connections
from headrace.store.statements import statement_transitions, statements
from headrace.store.statements.statement_transitions import claim_next
from headrace.store.tables import connections as table

SPEC = ConnectionSpec(database="sales", conf={"spark.a": "1"})


def open_connection(store: Database) -> str:
    with store.write("test") as tx:
        return connections.insert_connection(tx, OWNER, "test", SPEC).id


def submit(store: Database, lease: DriverLease, connection: str | None) -> str:
    new = NewStatement(
        id=new_id("st"),
        session_id=lease.session_id,
        owner=OWNER,
        spec=StatementSpec(text="SELECT 1"),
        connection_id=connection,
    )
    with store.write("test") as tx:
        return statements.insert(tx, new, actor=OWNER).id


def claim(store: Database, lease: DriverLease) -> str | None:
    with store.write("test") as tx:
        claimed = claim_next(tx, lease)
    return None if claimed is None else claimed.statement.id


def test_statements_of_a_connection_run_one_after_the_other_and_those_of_others_beside(
    store: Database,
) -> None:
    lease = running_session(store, pool=True, parallelism=3)
    first, second = open_connection(store), open_connection(store)
    one, two = submit(store, lease, first), submit(store, lease, first)
    of_second, of_none = submit(store, lease, second), submit(store, lease, None)
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
        connections.save_snapshot(tx, connection, snapshot)
    with store.read() as tx:
        state = connections.read_state(tx, connection)
    assert state is not None
    assert (state.spec, state.snapshot) == (SPEC, snapshot)
    with store.write("test") as tx:
        connections.close(tx, connection)
        connections.save_snapshot(tx, connection, snapshot)
        assert not connections.use(tx, connection)
        assert connections.read_state(tx, connection) is None
        closed = connections.get(tx, connection)
    assert closed is not None
    assert closed.ended_at is not None


def test_idle_connections_without_a_live_statement_are_closed_and_deleted_later(
    store: Database,
) -> None:
    lease = running_session(store, pool=True)
    old, busy, fresh = (open_connection(store) for _number in range(3))
    submit(store, lease, busy)
    with store.write("test") as tx:
        change = update(table).where(table.c.id.in_([old, busy]))
        tx.execute(change.values(last_used_at=clock(-100)))
    with store.write("test") as tx:
        assert connections.close_idle(tx, 60, 10) == 1
        assert connections.close_idle(tx, 60, 10) == 0
        assert connections.read_state(tx, old) is None
        assert connections.read_state(tx, busy) is not None
        assert connections.read_state(tx, fresh) is not None
        assert connections.delete_ended(tx, 60, 10) == {"connections": 0}
    with store.write("test") as tx:
        tx.execute(update(table).where(table.c.id == old).values(ended_at=clock(-100)))
        assert connections.delete_ended(tx, 60, 10) == {"connections": 1}
        assert connections.get(tx, old) is None
