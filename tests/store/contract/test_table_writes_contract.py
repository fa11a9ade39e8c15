"""Contract of the write locks of tables: appends share a lock, an overwrite is exclusive."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from sqlalchemy import update
from tests.support.store import LOST, OWNER, new_session, new_statement, running_session
from tests.support.table_transactions import Creation

from headrace.model.lifecycle import SessionState, StatementState, TransactionState
from headrace.model.session import DriverLease
from headrace.model.transaction import TableWrite, writer_name
from headrace.store import table_writes, transactions
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_transitions
from headrace.store.tables import sessions as sessions_table

pytestmark = pytest.mark.finding("B21")

_IDENTITY = "metastore"


@dataclass
class Writer:
    """A running statement that writes to a table, and its driver."""

    store: Database
    overwrite: bool = False
    location: str = "file:/warehouse/t"

    def __post_init__(self) -> None:
        self.lease = running_session(self.store)
        self.statement = new_statement(
            self.store, self.lease.session_id, StatementState.RUNNING, lease=self.lease
        )

    def request(self, lease: DriverLease | None = None) -> bool:
        write = TableWrite(location=self.location, table="`d`.`t`", overwrite=self.overwrite)
        with self.store.write("test") as tx:
            return table_writes.request(tx, self.statement, [write], _IDENTITY, lease or self.lease)

    def blocker(self) -> str | None:
        with self.store.read() as tx:
            return table_writes.find_blocker(tx, self.statement, self.lease)

    def release(self, *, succeeded: bool = True) -> None:
        with self.store.write("test") as tx:
            table_writes.release(tx, self.statement, self.lease, succeeded=succeeded)

    def fence(self) -> DriverLease:
        with self.store.write("test") as tx:
            epoch = takeovers.fence(tx, self.lease, actor="node", reason="test", seconds=60)
        assert epoch is not None
        return DriverLease(self.lease.session_id, epoch)


@pytest.fixture
def append(store: Database) -> Writer:
    """Return an append whose write lock is granted."""
    return request_lock(Writer(store))


def request_lock(writer: Writer) -> Writer:
    assert writer.request()
    return writer


def orphaned_writes(
    store: Database, identity: str = _IDENTITY, *, owner: str = OWNER
) -> list[tuple[str, str | None]]:
    reader = new_session(store, owner=owner)
    with store.read() as tx:
        writes = table_writes.orphaned_writes(tx, reader, [identity], limit=10)
    return [(write.writer, write.table) for write in writes]


def test_the_longest_location_can_be_stored(store: Database) -> None:
    # A random text cannot be compressed, so that no index entry becomes short by accident.
    first = request_lock(Writer(store, location=random.Random(1).randbytes(2048).hex()))
    waiting = request_lock(Writer(store, overwrite=True, location=first.location))
    assert waiting.blocker() == first.statement


def test_appends_to_one_table_run_beside_each_other(store: Database, append: Writer) -> None:
    assert append.blocker() is None
    assert request_lock(Writer(store)).blocker() is None


def test_an_overwrite_waits_for_every_earlier_write(store: Database, append: Writer) -> None:
    other = request_lock(Writer(store))
    overwrite = request_lock(Writer(store, overwrite=True))
    assert overwrite.blocker() == append.statement
    append.release()
    assert overwrite.blocker() == other.statement
    other.release()
    assert overwrite.blocker() is None


def test_writes_wait_for_an_earlier_overwrite_that_waits_itself(
    store: Database, append: Writer
) -> None:
    overwrite = request_lock(Writer(store, overwrite=True))
    later = request_lock(Writer(store))
    assert later.blocker() == overwrite.statement
    append.release()
    assert (overwrite.blocker(), later.blocker()) == (None, overwrite.statement)
    overwrite.release()
    assert later.blocker() is None


def test_a_failed_write_blocks_nothing_but_is_cleared_after_its_driver(store: Database) -> None:
    failed = request_lock(Writer(store, overwrite=True))
    later = request_lock(Writer(store, overwrite=True))
    for _report_or_its_repetition in range(2):
        failed.release(succeeded=False)
    assert later.blocker() is None
    assert orphaned_writes(store) == []
    fenced = failed.fence()
    with store.write("test") as tx:
        assert takeovers.finish_takeover(tx, fenced)
    assert len(orphaned_writes(store)) == 1


def test_of_many_failed_writes_to_one_table_one_is_kept(store: Database) -> None:
    failed = request_lock(Writer(store))
    other = Writer(store)
    other.lease = failed.lease
    other.statement = new_statement(
        store, failed.lease.session_id, StatementState.RUNNING, lease=failed.lease
    )
    failed.release(succeeded=False)
    request_lock(other).release(succeeded=False)
    fenced = failed.fence()
    with store.write("test") as tx:
        assert takeovers.finish_takeover(tx, fenced)
    assert len(orphaned_writes(store)) == 1


def test_writes_to_different_tables_do_not_wait(store: Database) -> None:
    request_lock(Writer(store, overwrite=True))
    assert request_lock(Writer(store, overwrite=True, location="file:/other")).blocker() is None


def test_a_repeated_request_keeps_its_place(store: Database) -> None:
    first = request_lock(Writer(store, overwrite=True))
    second = request_lock(Writer(store, overwrite=True))
    assert first.request()
    assert (first.blocker(), second.blocker()) == (None, first.statement)


@pytest.mark.parametrize("state", [StatementState.CANCELLING, StatementState.SUCCESS])
def test_a_statement_that_is_cancelled_or_has_ended_gets_no_lock(
    store: Database, state: StatementState
) -> None:
    writer = Writer(store)
    with store.write("test") as tx:
        assert statement_transitions.transition(tx, writer.statement, state, actor="test")
    assert not writer.request()


def test_no_other_session_and_no_old_epoch_gets_the_lock_of_a_statement(store: Database) -> None:
    writer, other = Writer(store), Writer(store)
    assert not writer.request(other.lease)
    writer.fence()
    assert not writer.request()


def test_a_write_of_a_lost_driver_blocks_until_its_process_is_gone(store: Database) -> None:
    lost = request_lock(Writer(store))
    overwrite = request_lock(Writer(store, overwrite=True))
    fenced = lost.fence()
    assert overwrite.blocker() == lost.statement
    assert orphaned_writes(store) == []
    with store.write("test") as tx:
        assert takeovers.finish_takeover(tx, fenced)
        takeovers.resolve_lost(tx, fenced.session_id, actor="node", failure=LOST, max_attempts=2)
    assert overwrite.blocker() is None
    assert orphaned_writes(store) == [
        (writer_name(lost.lease.session_id, lost.lease.epoch), "`d`.`t`")
    ]


def test_a_write_of_a_lost_driver_blocks_until_its_commit_is_completed(store: Database) -> None:
    """Some of its files may be in the table."""
    lost = request_lock(Writer(store))
    overwrite = request_lock(Writer(store, overwrite=True))
    creation = Creation(store)
    creation.lease, creation.statement = lost.lease, lost.statement
    creation.bring_to(TransactionState.COMMITTING)
    fenced = lost.fence()
    with store.write("test") as tx:
        assert takeovers.finish_takeover(tx, fenced)
    assert overwrite.blocker() == lost.statement
    assert orphaned_writes(store) == []

    with store.write("test") as tx:
        assert transactions.adopt(tx, lost.statement, fenced) is not None
    creation.lease = fenced
    assert creation.advance(TransactionState.ABORTING)
    assert overwrite.blocker() is None
    assert len(orphaned_writes(store)) == 1


def test_the_loss_of_the_next_driver_does_not_revive_an_old_write(store: Database) -> None:
    lost = request_lock(Writer(store))
    overwrite = request_lock(Writer(store, overwrite=True))
    fenced = lost.fence()
    with store.write("test") as tx:
        assert takeovers.finish_takeover(tx, fenced)
        epoch = takeovers.claim_launch(
            tx, fenced.session_id, node="no_1", seconds=60, token_hash="hash"
        )
    assert epoch is not None
    with store.write("test") as tx:
        assert takeovers.fence(
            tx, DriverLease(fenced.session_id, epoch), actor="node", reason="test", seconds=60
        )
    assert overwrite.blocker() is None


def test_a_write_of_a_closed_session_blocks_while_its_driver_may_still_exit(
    store: Database, append: Writer
) -> None:
    overwrite = request_lock(Writer(store, overwrite=True))
    session = append.lease.session_id
    with store.write("test") as tx:
        for state in (SessionState.CLOSING, SessionState.DEAD):
            assert sessions.transition(tx, session, state, actor="test")
    assert overwrite.blocker() == append.statement
    with store.write("test") as tx:
        ended = update(sessions_table).where(sessions_table.c.id == session)
        tx.execute(ended.values(ended_at=clock(-60)))
    assert overwrite.blocker() is None
    assert len(orphaned_writes(store)) == 1


def test_orphaned_writes_are_listed_for_their_catalog_until_they_are_cleared(
    store: Database, append: Writer
) -> None:
    fenced = append.fence()
    with store.write("test") as tx:
        assert takeovers.finish_takeover(tx, fenced)
    assert orphaned_writes(store, "other") == []
    assert orphaned_writes(store, owner="eve") == []
    own, foreign = new_session(store), new_session(store, owner="eve")
    with store.write("test") as tx:
        [write] = table_writes.orphaned_writes(tx, own, [_IDENTITY], limit=10)
        after = write.number
        assert table_writes.orphaned_writes(tx, own, [_IDENTITY], after=after, limit=10) == []
        table_writes.forget(tx, own, [write.number], ["other"])
        table_writes.forget(tx, foreign, [write.number], [_IDENTITY])
    assert len(orphaned_writes(store)) == 1, (
        "a driver without the catalog, or of another owner, made the node forget a write"
    )
    with store.write("test") as tx:
        table_writes.forget(tx, own, [write.number], [_IDENTITY])
    assert orphaned_writes(store) == []


def test_a_running_write_is_not_forgotten(store: Database, append: Writer) -> None:
    reader = new_session(store)
    with store.write("test") as tx:
        table_writes.forget(tx, reader, range(100), [_IDENTITY])
    overwrite = request_lock(Writer(store, overwrite=True))
    assert overwrite.blocker() == append.statement


def test_of_concurrent_overwrites_one_at_a_time_holds_the_lock(store: Database) -> None:
    writers = [Writer(store, overwrite=True) for _ in range(8)]
    barrier = threading.Barrier(len(writers))

    def find_blocker(writer: Writer) -> str | None:
        barrier.wait()
        return request_lock(writer).blocker()

    with ThreadPoolExecutor(len(writers)) as executor:
        blockers = list(executor.map(find_blocker, writers))
    assert blockers.count(None) == 1
