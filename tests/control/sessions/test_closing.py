"""The close of sessions with long queues: short transactions, and no session ends too early."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event, func, select, update
from tests.support.in_process_node import make_settings
from tests.support.store import (
    OWNER,
    get_session,
    new_session,
    new_statement,
    running_session,
    waits_for_lock,
)
from tests.support.waiting import wait_until

from headrace.control.context import NodeContext
from headrace.control.policy import Caller
from headrace.control.sessions.ending import Closings, close_session, finish_close
from headrace.control.sessions.service import Sessions
from headrace.model.lifecycle import SessionState, StatementState
from headrace.model.session import DriverLease
from headrace.store import tables
from headrace.store.database import Database
from headrace.store.notifications import session_topic
from headrace.store.sessions import lease_renewals, sessions, takeovers
from headrace.store.statements import statement_queue, statements
from headrace.store.tables import statements as statements_table

CHUNK = statement_queue.CHUNK


@pytest.fixture
def closings(store: Database, tmp_path: Path) -> Closings:
    return Closings(NodeContext(store, make_settings(tmp_path), "no_1", "http://node"))


def _fill_queue(store: Database, session_id: str, count: int) -> None:
    """Insert waiting statements: a first one, and copies of its row."""
    first = new_statement(store, session_id)
    columns = [column for column in statements_table.c if column.name not in {"id", "ordinal"}]
    with store.write("test") as tx:
        row = tx.execute(select(*columns).where(statements_table.c.id == first)).mappings().one()
        rows = [
            {**row, "id": f"{first}{number:06}", "ordinal": number} for number in range(1, count)
        ]
        tx.execute(statements_table.insert(), rows)


def _close(store: Database, session_id: str) -> None:
    with store.write("test") as tx:
        close_session(tx, session_id, actor="ada")


def _count_states(store: Database, session_id: str) -> dict[StatementState, int]:
    query = select(statements_table.c.state, func.count().label("number"))
    query = query.where(statements_table.c.session_id == session_id)
    with store.read() as tx:
        rows = tx.execute(query.group_by(statements_table.c.state)).all()
    return {row.state: row.number for row in rows}


@pytest.mark.finding("B11")
def test_the_transaction_that_closes_a_session_does_not_grow_with_its_queue(
    store: Database,
) -> None:
    session_id = running_session(store).session_id
    _fill_queue(store, session_id, 3 * CHUNK)
    executed: list[str] = []

    with store.write("test") as tx:
        event.listen(
            tx.connection, "before_cursor_execute", lambda *values: executed.append(values[2])
        )
        close_session(tx, session_id, actor="ada")

    assert get_session(store, session_id).state is SessionState.CLOSING
    assert len(executed) < 20


@pytest.mark.finding("B11")
def test_a_long_queue_ends_in_chunks_before_its_session(
    store: Database, closings: Closings
) -> None:
    session_id = new_session(store)
    _fill_queue(store, session_id, 2 * CHUNK + 1)
    seen: list[tuple[SessionState, int]] = []

    def read_state() -> None:
        with store.read() as tx:
            session = sessions.get(tx, session_id)
        assert session is not None
        seen.append((session.state, session.active))

    with store.notifications.subscribe(session_topic(session_id), read_state):
        _close(store, session_id)
        closings.run()

    closing = SessionState.CLOSING
    assert seen == [(closing, CHUNK + 1), (closing, 1), (SessionState.DEAD, 0)]
    assert _count_states(store, session_id) == {StatementState.CANCELLED: 2 * CHUNK + 1}


@pytest.mark.finding("B11")
def test_a_driver_that_ends_before_the_queue_leaves_the_rest_to_the_node(
    store: Database, closings: Closings
) -> None:
    lease = running_session(store)
    _fill_queue(store, lease.session_id, 3 * CHUNK)
    _close(store, lease.session_id)

    with store.write("test") as tx:
        assert finish_close(tx, lease.session_id, actor="driver", epoch=lease.epoch)
    assert get_session(store, lease.session_id).state is SessionState.CLOSING
    with store.write("test") as tx:
        assert lease_renewals.renew(tx, lease, 60) is None

    closings.run()
    assert get_session(store, lease.session_id).state is SessionState.DEAD
    assert _count_states(store, lease.session_id) == {StatementState.CANCELLED: 3 * CHUNK}


@pytest.mark.finding("B11")
def test_a_closing_session_with_a_driver_waits_for_it_after_its_queue(
    store: Database, closings: Closings
) -> None:
    lease = running_session(store)
    running = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    new_statement(store, lease.session_id)
    with store.read() as tx:
        assert statements.in_flight_ids(tx, lease.session_id) == [running]
    _close(store, lease.session_id)
    closings.run()
    assert get_session(store, lease.session_id).state is SessionState.CLOSING
    assert _count_states(store, lease.session_id) == {
        StatementState.CANCELLING: 1,
        StatementState.CANCELLED: 1,
    }
    with store.write("test") as tx:
        stale = DriverLease(lease.session_id, lease.epoch + 1)
        assert not finish_close(tx, lease.session_id, actor="driver", epoch=stale.epoch)
        assert finish_close(tx, lease.session_id, actor="driver", epoch=lease.epoch)
    assert get_session(store, lease.session_id).state is SessionState.DEAD


def test_a_session_that_is_closed_while_its_takeover_finishes_is_dead(
    postgres_url: str, tmp_path: Path
) -> None:
    store = Database.open(postgres_url)
    service = Sessions(NodeContext(store, make_settings(tmp_path), "no_1", "http://node"))
    try:
        lease = running_session(store)
        with store.write("test") as tx:
            epoch = takeovers.fence(tx, lease, actor="no_1", reason="it died", seconds=60)
        assert epoch is not None
        fenced = DriverLease(lease.session_id, epoch)
        with ThreadPoolExecutor(1) as pool:
            with store.write("test") as takeover:
                sessions.lock(takeover, lease.session_id)
                closing = pool.submit(service.close, Caller(OWNER), lease.session_id)
                wait_until(lambda: waits_for_lock(store), what="the close waits for the takeover")
                assert takeovers.finish_takeover(takeover, fenced)
            assert closing.result(60).state is SessionState.DEAD
    finally:
        store.close()


def test_a_closing_session_without_driver_and_queue_is_ended_by_a_node(
    store: Database, closings: Closings
) -> None:
    lease = running_session(store)
    _close(store, lease.session_id)
    closings.run()
    assert get_session(store, lease.session_id).state is SessionState.CLOSING
    with store.write("test") as tx:
        row = update(tables.sessions).where(tables.sessions.c.id == lease.session_id)
        tx.execute(row.values(lease_until=None))
    closings.run()
    assert get_session(store, lease.session_id).state is SessionState.DEAD
