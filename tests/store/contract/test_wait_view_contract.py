"""Contract of what a statement waits for."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update
from tests.store.contract.test_table_writes_contract import Writer
from tests.support.store import OWNER, new_session, new_statement, running_session

from headrace.model.connection import ConnectionSpec
from headrace.model.lifecycle import SessionState, StatementState
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import connections
from headrace.store.statements import wait_view
from headrace.store.tables import sessions

pytestmark = pytest.mark.finding("U11")


def test_a_waiting_statement_has_the_state_of_its_session_and_what_is_before_it(
    store: Database,
) -> None:
    lease = running_session(store)
    running = new_statement(store, lease.session_id, StatementState.RUNNING, lease=lease)
    first, second = (new_statement(store, lease.session_id) for _number in range(2))
    with store.read() as tx:
        queues = wait_view.read_queues(tx, [first, second, running], counts_users=True)
    assert {id_: queue.before for id_, queue in queues.items()} == {first: 0, second: 1}
    queue = queues[second]
    assert (queue.session_state, queue.before, queue.in_flight) == (SessionState.RUNNING, 1, 1)
    assert (queue.owner_in_flight, queue.all_in_flight) == (1, 1)
    assert queue.exclusive == running
    assert not queue.is_ending


def test_a_statement_of_a_connection_waits_for_the_one_before(store: Database) -> None:
    lease = running_session(store, pool=True)
    with store.write("test") as tx:
        one, other = (
            connections.insert_connection(tx, OWNER, "test", ConnectionSpec()).id
            for _number in range(2)
        )
    running, second, third, of_other = (
        new_statement(store, lease.session_id, state, lease=lease, connection=connection)
        for state, connection in (
            (StatementState.RUNNING, one),
            (StatementState.WAITING, one),
            (StatementState.WAITING, one),
            (StatementState.WAITING, other),
        )
    )
    with store.read() as tx:
        queues = wait_view.read_queues(tx, [second, third, of_other], counts_users=False)
    found = {id_: (each.connection_blocker, each.before) for id_, each in queues.items()}
    # The statements of the first connection do not hold up that of the second one.
    assert found == {second: (running, 0), third: (running, 1), of_other: (None, 0)}


def test_the_launches_before_a_session_are_those_of_its_profile(store: Database) -> None:
    # Ids of one millisecond are in no order.
    first, second, third = sorted(new_session(store) for _number in range(3))
    set_session(store, first, state=SessionState.STARTING, last_update_time=clock(-40))
    set_session(store, second, profile="other")
    statement = new_statement(store, third)
    with store.read() as tx:
        queue = wait_view.read_queues(tx, [statement], counts_users=False)[statement]
    assert queue.launches_before == 1
    assert queue.first_launch is not None
    assert 39 < (queue.now - queue.first_launch).total_seconds() < 70
    set_session(store, third, state=SessionState.STARTING)
    with store.read() as tx:
        queue = wait_view.read_queues(tx, [statement], counts_users=False)[statement]
    assert (queue.launches_before, queue.first_launch) == (0, None)


def set_session(store: Database, session_id: str, **values: Any) -> None:
    with store.write("test.session") as tx:
        tx.execute(update(sessions).where(sessions.c.id == session_id).values(**values))


def test_a_statement_of_a_session_without_a_driver_waits_for_the_session(store: Database) -> None:
    statement = new_statement(store, new_session(store))
    with store.read() as tx:
        queue = wait_view.read_queues(tx, [statement], counts_users=False)[statement]
    assert (queue.session_state, queue.starts) == (SessionState.NOT_STARTED, 0)
    assert (queue.before, queue.in_flight, queue.all_in_flight) == (0, 0, 0)


def test_a_statement_waits_for_the_writer_that_the_driver_waits_for(store: Database) -> None:
    append, other_append, overwrite = Writer(store), Writer(store), Writer(store, overwrite=True)
    elsewhere = Writer(store, overwrite=True, location="file:/warehouse/other")
    for writer in (append, other_append, overwrite, elsewhere):
        writer.request()
    writers = (append, other_append, overwrite, elsewhere)
    with store.read() as tx:
        all_locks = wait_view.read_locks(tx, [writer.statement for writer in writers])
    for writer in writers:
        locks = all_locks[writer.statement]
        assert locks.writer == writer.blocker()
        assert locks.table == (None if locks.writer is None else "`d`.`t`")
        assert locks.since is not None
        assert locks.publisher is None
    assert overwrite.blocker() == append.statement
    append.release()
    other_append.release()
    with store.read() as tx:
        locks = wait_view.read_locks(tx, [overwrite.statement])[overwrite.statement]
    assert locks.writer is None
