"""Contract of the journal of table transactions: only the owning driver changes it, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.store import read_changes
from tests.support.table_transactions import NATIVE, STAGED, Creation

from headrace.errors import Committing, TableBusy
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState, StatementState, TransactionState
from headrace.model.session import DriverLease
from headrace.model.statement import CancelReason
from headrace.store import transactions
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_transitions


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
        log = read_changes(tx, entity_id=creation.id)
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


def test_appends_publish_in_one_table_at_the_same_time(store: Database) -> None:
    shared = STAGED.model_copy(update={"shares_target": True})
    for creation in (Creation(store), Creation(store), Creation(store)):
        creation.bring_to(TransactionState.COMMITTING, shared)


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
        assert (claimed.statement.id, claimed.statement.attempts) == (creation.statement, 2)
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


@pytest.mark.parametrize(("waiting", "expected"), [("waiting", "waiting"), (None, "lost")])
def test_the_end_of_a_session_fails_a_statement_that_waits_with_a_table_as_a_waiting_one(
    store: Database, waiting: str | None, expected: str
) -> None:
    creation = Creation(store)
    creation.bring_to(TransactionState.BEGUN)
    assert creation.lose_driver() is StatementState.WAITING
    with store.write("test") as tx:
        statement_transitions.end_all_statements(
            tx,
            creation.lease.session_id,
            actor="ada",
            failure=Failure(code="lost", message="No."),
            waiting=None if waiting is None else Failure(code=waiting, message="No."),
        )
    failure = creation.get_statement().failure
    assert failure is not None
    assert failure.code == expected


def test_outcome_notes_are_stored(store: Database) -> None:
    creation = Creation(store)
    with store.write("test") as tx:
        statement_transitions.set_outcome(tx, creation.statement, atomic=True, note="done")
    statement = creation.get_statement()
    assert (statement.atomic, statement.note) == (True, "done")
