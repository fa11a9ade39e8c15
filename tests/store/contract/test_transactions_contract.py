"""Contract of the journal of table transactions: only the owning driver changes it, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update
from tests.support.store import LOST, new_statement, running_session

from headrace.errors import Committing, TableBusy, TooManyTransactions
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState, TransactionState
from headrace.model.session import DriverLease
from headrace.model.statement import CancelReason, Statement
from headrace.model.transaction import Staged, Transaction
from headrace.store import (
    events,
    sessions,
    statement_transitions,
    statements,
    takeovers,
    transactions,
)
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.tables import sessions as sessions_table

STAGED = Staged(
    kind="session", catalog="spark_catalog", identity="here", target="`d`.`t`", record={"a": 1}
)
NATIVE = STAGED.model_copy(update={"commits_natively": True})
_STEPS = {
    TransactionState.PREPARED: [],
    TransactionState.BEGUN: [TransactionState.BEGUN],
    TransactionState.COMMITTING: [TransactionState.BEGUN, TransactionState.COMMITTING],
    TransactionState.ABORTING: [TransactionState.ABORTING],
}


class Creation:
    """A running statement that creates a two-phase table, and its driver."""

    def __init__(self, store: Database) -> None:
        self.store = store
        self.lease = running_session(store)
        self.statement = new_statement(
            store, self.lease.session_id, StatementState.RUNNING, lease=self.lease
        )
        self.id = new_id("tx")

    def prepare(self, staged: Staged = STAGED) -> bool:
        new = Transaction(
            id=self.id,
            statement_id=self.statement,
            session_id=self.lease.session_id,
            epoch=self.lease.epoch,
            state=TransactionState.PREPARED,
            staged=staged,
            staged_epoch=self.lease.epoch,
        )
        with self.store.write("test") as tx:
            return transactions.prepare(tx, new, actor="driver")

    def advance(
        self,
        state: TransactionState,
        staged: Staged | None = None,
        *,
        published: bool = False,
    ) -> bool:
        with self.store.write("test") as tx:
            return transactions.advance(
                tx,
                self.id,
                state,
                lease=self.lease,
                actor="driver",
                staged=staged,
                published=published,
            )

    def bring_to(self, state: TransactionState, staged: Staged = STAGED) -> None:
        assert self.prepare(staged)
        for step in _STEPS[state]:
            assert self.advance(step)

    def cancel(self) -> StatementState | None:
        with self.store.write("test") as tx:
            return statement_transitions.request_cancel(tx, self.statement, actor="ada")

    def get_transaction(self) -> Transaction:
        with self.store.read() as tx:
            transaction = transactions.get(tx, self.id)
        assert transaction is not None
        return transaction

    def get_statement(self) -> Statement:
        with self.store.read() as tx:
            statement = statements.get(tx, self.statement)
        assert statement is not None
        return statement

    def lose_driver(self, *, max_attempts: int = 2) -> StatementState:
        """Fence the driver and finish the takeover. Return the state of the statement then."""
        with self.store.write("test") as tx:
            epoch = takeovers.fence(tx, self.lease, actor="no_1", reason="it died", seconds=60)
            assert epoch is not None
            session_id = self.lease.session_id
            assert takeovers.finish_takeover(tx, DriverLease(session_id, epoch))
            statement_transitions.resolve_lost_statements(
                tx, session_id, actor="no_1", failure=LOST, max_attempts=max_attempts
            )
        return self.get_statement().state


def test_every_step_of_a_transaction_is_journalled_with_an_event(store: Database) -> None:
    creation = Creation(store)
    assert creation.prepare()
    assert creation.prepare()
    complete = STAGED.model_copy(update={"record": {"a": 2}})
    without_record = STAGED.model_copy(update={"record": {}})
    for state, written, journalled in (
        (TransactionState.BEGUN, None, STAGED),
        (TransactionState.COMMITTING, complete, complete),
        (TransactionState.COMMITTED, None, without_record),
    ):
        assert creation.advance(state, written)
        assert creation.advance(state)
        transaction = creation.get_transaction()
        assert (transaction.state, transaction.staged) == (state, journalled)
    with store.read() as tx:
        log = events.read(tx, after=None, entity_id=creation.id, limit=10)
        assert transactions.live(tx, creation.statement) is None
    assert [event.target for event in log] == ["prepared", "begun", "committing", "committed"]
    assert log[0].detail == {"statement": creation.statement, "target": "`d`.`t`"}


@pytest.mark.parametrize("state", [TransactionState.PREPARED, TransactionState.ABORTING])
def test_a_transaction_that_has_not_begun_cannot_commit(
    store: Database, state: TransactionState
) -> None:
    creation = Creation(store)
    creation.bring_to(state)
    assert not creation.advance(TransactionState.COMMITTING)
    assert creation.get_transaction().state is state


def test_a_transaction_that_is_not_prepared_cannot_advance(store: Database) -> None:
    creation = Creation(store)
    assert not creation.advance(TransactionState.BEGUN)


def test_a_statement_that_is_being_cancelled_cannot_prepare_or_commit(store: Database) -> None:
    creation, early = Creation(store), Creation(store)
    assert early.cancel() is StatementState.CANCELLING
    assert not early.prepare()
    creation.bring_to(TransactionState.BEGUN)
    assert creation.cancel() is StatementState.CANCELLING
    assert not creation.advance(TransactionState.COMMITTING)
    assert creation.advance(TransactionState.ABORTING)
    assert creation.advance(TransactionState.ABORTED)


def test_a_statement_that_is_committing_cannot_be_cancelled(store: Database) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.COMMITTING)
    with pytest.raises(Committing, match=creation.statement):
        creation.cancel()
    with store.write("test") as tx, pytest.raises(Committing):
        reason = CancelReason.CLOSED
        statement_transitions.request_cancel(
            tx, creation.statement, actor="ada", reason=reason, force=True
        )
    assert creation.get_statement().cancel_requested_at is None


def test_one_transaction_at_a_time_publishes_a_table_name(store: Database) -> None:
    first, second, elsewhere = Creation(store), Creation(store), Creation(store)
    first.bring_to(TransactionState.COMMITTING)
    second.bring_to(TransactionState.BEGUN)
    with pytest.raises(TableBusy, match=r"`d`\.`t`"):
        second.advance(TransactionState.COMMITTING)
    assert elsewhere.prepare(STAGED.model_copy(update={"identity": "there"}))
    assert elsewhere.advance(TransactionState.BEGUN)
    assert elsewhere.advance(TransactionState.COMMITTING)
    assert first.advance(TransactionState.COMMITTED)
    assert second.advance(TransactionState.COMMITTING)


def test_one_transaction_at_a_time_publishes_at_a_location(store: Database) -> None:
    first, second, elsewhere = Creation(store), Creation(store), Creation(store)
    at_location = STAGED.model_copy(update={"location": "file:/location"})
    first.bring_to(TransactionState.COMMITTING, at_location)
    other = at_location.model_copy(update={"target": "`d`.`u`"})
    second.bring_to(TransactionState.BEGUN, other)
    with pytest.raises(TableBusy, match="LOCATION"):
        second.advance(TransactionState.COMMITTING)
    elsewhere.bring_to(
        TransactionState.COMMITTING,
        other.model_copy(update={"target": "`d`.`v`", "location": "file:/other"}),
    )
    assert first.advance(TransactionState.COMMITTED)
    assert second.advance(TransactionState.COMMITTING)


def test_a_lost_driver_cannot_change_the_journal(store: Database) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.BEGUN)
    assert creation.lose_driver() is StatementState.WAITING
    for state in (TransactionState.COMMITTING, TransactionState.ABORTING):
        assert not creation.advance(state)
    assert creation.get_transaction().state is TransactionState.BEGUN


@pytest.mark.parametrize(
    ("state", "max_attempts", "after"),
    [
        (TransactionState.PREPARED, 2, StatementState.WAITING),
        (TransactionState.BEGUN, 2, StatementState.WAITING),
        (TransactionState.ABORTING, 2, StatementState.WAITING),
        (TransactionState.BEGUN, 1, StatementState.FAILED),
        # Its rows are complete: it is finished however many drivers are lost.
        (TransactionState.COMMITTING, 1, StatementState.WAITING),
    ],
)
def test_a_ctas_is_retried_after_a_loss_unless_its_attempts_are_used_up(
    store: Database, state: TransactionState, max_attempts: int, after: StatementState
) -> None:
    creation = Creation(store)
    creation.bring_to(state)
    assert creation.lose_driver(max_attempts=max_attempts) is after


def test_a_command_without_a_transaction_is_not_retried(store: Database) -> None:
    assert Creation(store).lose_driver() is StatementState.FAILED


def test_the_next_driver_adopts_the_transaction_of_a_retried_statement(store: Database) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.COMMITTING)
    assert creation.lose_driver() is StatementState.WAITING
    # Its commit has begun, so it cannot be cancelled while it waits either.
    with pytest.raises(Committing):
        creation.cancel()
    with store.write("test") as tx:
        epoch = takeovers.claim_launch(
            tx, creation.lease.session_id, node="no_1", seconds=60, token_hash="other"
        )
        assert epoch is not None
        running = SessionState.RUNNING
        assert sessions.transition(
            tx, creation.lease.session_id, running, actor="driver", epoch=epoch
        )
        lease = DriverLease(creation.lease.session_id, epoch)
        claimed = statement_transitions.claim_next(tx, lease)
        assert claimed is not None
        assert (claimed.id, claimed.attempts) == (creation.statement, 2)
        adopted = transactions.adopt(tx, creation.statement, lease)
    assert adopted == replace(creation.get_transaction(), epoch=epoch)
    assert not creation.advance(TransactionState.COMMITTED)
    creation.lease = lease
    assert creation.advance(TransactionState.COMMITTED)


def test_a_published_table_is_journalled_although_a_cancel_was_requested(store: Database) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.BEGUN, NATIVE)
    assert creation.cancel() is StatementState.CANCELLING
    assert not creation.advance(TransactionState.COMMITTING)
    assert creation.advance(TransactionState.COMMITTING, published=True)
    assert creation.advance(TransactionState.COMMITTED)


def test_a_retried_statement_with_a_native_commit_in_doubt_cannot_be_cancelled(
    store: Database,
) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.BEGUN, NATIVE)
    assert creation.lose_driver() is StatementState.WAITING
    with pytest.raises(Committing):
        creation.cancel()


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_native_commit_without_attempts_left_ends_in_doubt(
    store: Database, cancelled: bool
) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.BEGUN, NATIVE)
    if cancelled:
        creation.cancel()
    assert creation.lose_driver(max_attempts=1) is StatementState.FAILED
    failure = creation.get_statement().failure
    assert failure is not None
    assert failure.code == "commit_in_doubt"


def test_the_end_of_a_session_marks_committing_statements_as_in_doubt(store: Database) -> None:
    committing, begun = Creation(store), Creation(store)
    committing.bring_to(TransactionState.COMMITTING)
    begun.bring_to(TransactionState.BEGUN)
    failure = Failure(code="session_closed", message="It was closed.")
    for creation, code in ((committing, "commit_in_doubt"), (begun, "session_closed")):
        with store.write("test") as tx:
            statement_transitions.end_all_statements(
                tx, creation.lease.session_id, actor="ada", failure=failure
            )
        statement = creation.get_statement()
        assert statement.failure is not None
        assert (statement.state, statement.failure.code) == (StatementState.FAILED, code)
        assert "It was closed." in statement.failure.message


def test_outcome_notes_are_stored(store: Database) -> None:
    creation = Creation(store)
    with store.write("test") as tx:
        statement_transitions.set_outcome(tx, creation.statement, atomic=True, note="done")
    statement = creation.get_statement()
    assert (statement.atomic, statement.note) == (True, "done")


def orphaned_ids(store: Database) -> list[str]:
    with store.read() as tx:
        orphans = transactions.orphaned(tx, owner="ada", limit=100)
    assert all(transaction.orphaned for transaction in orphans)
    return [transaction.id for transaction in orphans]


def has_orphaned(store: Database, identity: str) -> bool:
    with store.read() as tx:
        return transactions.has_orphaned(tx, [identity])


def backdate_end(store: Database, session: str) -> None:
    """Let the end of a session be longer ago than GONE_SECONDS."""
    with store.write("test") as tx:
        query = update(sessions_table).where(sessions_table.c.id == session)
        tx.execute(query.values(ended_at=clock(-2 * transactions.GONE_SECONDS)))


def test_an_orphaned_transaction_is_taken_over_once(store: Database) -> None:
    creation = Creation(store)
    assert creation.prepare(STAGED.model_copy(update={"identity": creation.id}))
    assert creation.advance(TransactionState.BEGUN)
    assert creation.id not in orphaned_ids(store)
    # The statement has failed and its driver is gone.
    assert creation.lose_driver(max_attempts=1) is StatementState.FAILED
    assert orphaned_ids(store) == [creation.id]
    assert has_orphaned(store, creation.id)
    assert not has_orphaned(store, "elsewhere")
    other = running_session(store)
    for expected in ([creation.id], []):
        with store.write("test") as tx:
            adopted = transactions.take_over_orphaned(tx, [creation.id], other, limit=10)
        assert [transaction.id for transaction in adopted] == expected
    assert not creation.advance(TransactionState.ABORTING)
    creation.lease = other
    assert creation.advance(TransactionState.ABORTING)
    assert creation.advance(TransactionState.ABORTED)
    assert orphaned_ids(store) == []
    assert not has_orphaned(store, creation.id)


def test_the_transaction_of_a_statement_that_will_be_retried_is_not_orphaned(
    store: Database,
) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.COMMITTING)
    assert creation.lose_driver() is StatementState.WAITING
    assert creation.id not in orphaned_ids(store)


def test_a_transaction_is_orphaned_some_time_after_the_end_of_its_session(store: Database) -> None:
    creation = Creation(store)
    assert creation.prepare(STAGED.model_copy(update={"identity": creation.id}))
    for step in (TransactionState.BEGUN, TransactionState.COMMITTING):
        assert creation.advance(step)
    failure = Failure(code="session_closed", message="It was closed.")
    with store.write("test") as tx:
        assert sessions.transition(
            tx, creation.lease.session_id, SessionState.FAILED, actor="x", failure=failure
        )
        statement_transitions.end_all_statements(
            tx, creation.lease.session_id, actor="x", failure=failure
        )
    # The driver process may still be running.
    assert orphaned_ids(store) == []
    backdate_end(store, creation.lease.session_id)
    assert orphaned_ids(store) == [creation.id]


def test_an_owner_sees_only_their_own_transactions(store: Database) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.PREPARED)
    with store.read() as tx:
        own = transactions.summary(tx, creation.id, owner="ada")
        assert transactions.summary(tx, creation.id, owner="bob") is None
        page = transactions.page(tx, owner="ada", before=None, limit=1000)
        assert transactions.page(tx, owner="bob", before=None, limit=10) == []
        earlier = transactions.page(tx, owner="ada", before=creation.id, limit=1000)
    assert own is not None
    assert (own.catalog, own.target, own.orphaned) == (STAGED.catalog, STAGED.target, False)
    assert page == [own]
    assert earlier == []


@pytest.mark.finding("S8")
def test_a_driver_begins_a_bounded_number_of_transactions_for_a_statement(store: Database) -> None:
    creation = Creation(store)
    for _ in range(100):
        creation.id = new_id("tx")
        assert creation.prepare()
        assert creation.advance(TransactionState.ABORTING)
        assert creation.advance(TransactionState.ABORTED)
    creation.id = new_id("tx")
    with pytest.raises(TooManyTransactions, match="100"):
        creation.prepare()


@pytest.mark.finding("S8")
def test_large_orphaned_transactions_are_taken_over_in_several_calls(store: Database) -> None:
    large = STAGED.model_copy(update={"record": {"files": "x" * 3 * 1024 * 1024}})
    creations = [Creation(store) for _ in range(3)]
    for creation in creations:
        assert creation.prepare(large)
        assert creation.lose_driver(max_attempts=1) is StatementState.FAILED
    other = running_session(store)
    taken = []
    for _ in creations:
        with store.write("test") as tx:
            taken += [
                [
                    transaction.id
                    for transaction in transactions.take_over_orphaned(
                        tx, [STAGED.identity], other, limit=10
                    )
                ]
            ]
    assert taken == [[creation.id] for creation in creations]
