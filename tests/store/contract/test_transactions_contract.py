"""The journal of two-phase tables in every store: each step lands once, for who holds it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update
from tests.support.store import LOST, new_statement, running_session

from headrace.errors import Committing, TableBusy
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState, TransactionState
from headrace.model.statement import CancelReason
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
BY_ITSELF = STAGED.model_copy(update={"commits_natively": True})
_STEPS = {
    TransactionState.PREPARED: [],
    TransactionState.BEGUN: [TransactionState.BEGUN],
    TransactionState.COMMITTING: [TransactionState.BEGUN, TransactionState.COMMITTING],
    TransactionState.ABORTING: [TransactionState.ABORTING],
}


class Held:
    """A statement in the hands of a driver, which creates a table."""

    def __init__(self, store: Database, **running: int) -> None:
        self.store = store
        self.session, self.epoch = running_session(store, **running)
        self.statement = new_statement(
            store, self.session, StatementState.RUNNING, epoch=self.epoch
        )
        self.id = new_id("tx")

    def prepare(self, staged: Staged = STAGED) -> bool:
        new = Transaction(
            id=self.id,
            statement_id=self.statement,
            session_id=self.session,
            epoch=self.epoch,
            state=TransactionState.PREPARED,
            staged=staged,
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
                session_id=self.session,
                epoch=self.epoch,
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

    def known(self) -> Transaction:
        with self.store.read() as tx:
            found = transactions.get(tx, self.id)
        assert found is not None
        return found

    def declare_lost(self, *, max_attempts: int = 2) -> StatementState:
        """What becomes of the statement when its driver is lost."""
        with self.store.write("test") as tx:
            fence = takeovers.fence(
                tx, self.session, self.epoch, actor="no_1", reason="it died", seconds=60
            )
            assert fence is not None
            assert takeovers.finish_takeover(tx, self.session, fence)
            statement_transitions.resolve_lost_statements(
                tx, self.session, actor="no_1", failure=LOST, max_attempts=max_attempts
            )
            found = statements.get(tx, self.statement)
        assert found is not None
        return found.state


def test_each_step_lands_and_is_told(store: Database) -> None:
    held = Held(store)
    assert held.prepare()
    assert held.prepare()
    complete = STAGED.model_copy(update={"record": {"a": 2}})
    for state in (TransactionState.BEGUN, TransactionState.COMMITTING, TransactionState.COMMITTED):
        assert held.advance(state, complete)
        assert held.advance(state)
    known = held.known()
    assert (known.state, known.staged) == (TransactionState.COMMITTED, complete)
    with store.read() as tx:
        told = events.read(tx, after=None, entity_id=held.id, limit=10)
        assert transactions.live(tx, held.statement) is None
    assert [one.target for one in told] == ["prepared", "begun", "committing", "committed"]
    assert told[0].detail == {"statement": held.statement, "target": "`d`.`t`"}


@pytest.mark.parametrize("state", [TransactionState.PREPARED, TransactionState.ABORTING])
def test_nothing_is_committed_that_has_not_begun(store: Database, state: TransactionState) -> None:
    held = Held(store)
    held.bring_to(state)
    assert not held.advance(TransactionState.COMMITTING)
    assert held.known().state is state


def test_what_is_not_journalled_goes_nowhere(store: Database) -> None:
    held = Held(store)
    assert not held.advance(TransactionState.BEGUN)


def test_a_cancel_that_comes_first_wins(store: Database) -> None:
    held, early = Held(store), Held(store)
    assert early.cancel() is StatementState.CANCELLING
    assert not early.prepare()
    held.bring_to(TransactionState.BEGUN)
    assert held.cancel() is StatementState.CANCELLING
    assert not held.advance(TransactionState.COMMITTING)
    assert held.advance(TransactionState.ABORTING)
    assert held.advance(TransactionState.ABORTED)


def test_a_commit_that_comes_first_wins(store: Database) -> None:
    held = Held(store)
    held.bring_to(TransactionState.COMMITTING)
    with pytest.raises(Committing, match=held.statement):
        held.cancel()
    with store.write("test") as tx, pytest.raises(Committing):
        reason = CancelReason.CLOSED
        statement_transitions.request_cancel(
            tx, held.statement, actor="ada", reason=reason, force=True
        )
    with store.read() as tx:
        found = statements.get(tx, held.statement)
    assert found is not None
    assert found.cancel_requested_at is None


def test_one_at_a_time_publishes_a_name(store: Database) -> None:
    first, second, elsewhere = Held(store), Held(store), Held(store)
    first.bring_to(TransactionState.COMMITTING)
    second.bring_to(TransactionState.BEGUN)
    with pytest.raises(TableBusy, match=r"`d`\.`t`"):
        second.advance(TransactionState.COMMITTING)
    assert elsewhere.prepare(STAGED.model_copy(update={"identity": "there"}))
    assert elsewhere.advance(TransactionState.BEGUN)
    assert elsewhere.advance(TransactionState.COMMITTING)
    assert first.advance(TransactionState.COMMITTED)
    assert second.advance(TransactionState.COMMITTING)


def test_one_at_a_time_is_published_in_a_location(store: Database) -> None:
    """Whatever their names, where they are of one catalog."""
    first, second, elsewhere = Held(store), Held(store), Held(store)
    here = STAGED.model_copy(update={"location": "file:/place"})
    first.bring_to(TransactionState.COMMITTING, here)
    other = here.model_copy(update={"target": "`d`.`u`"})
    second.bring_to(TransactionState.BEGUN, other)
    with pytest.raises(TableBusy, match="LOCATION"):
        second.advance(TransactionState.COMMITTING)
    elsewhere.bring_to(
        TransactionState.COMMITTING,
        other.model_copy(update={"target": "`d`.`v`", "location": "file:/other"}),
    )
    assert first.advance(TransactionState.COMMITTED)
    assert second.advance(TransactionState.COMMITTING)


def test_a_lost_driver_changes_no_journal(store: Database) -> None:
    held = Held(store)
    held.bring_to(TransactionState.BEGUN)
    assert held.declare_lost() is StatementState.WAITING
    for state in (TransactionState.COMMITTING, TransactionState.ABORTING):
        assert not held.advance(state)
    assert held.known().state is TransactionState.BEGUN


@pytest.mark.parametrize(
    ("state", "max_attempts", "after"),
    [
        (TransactionState.PREPARED, 2, StatementState.WAITING),
        (TransactionState.BEGUN, 2, StatementState.WAITING),
        (TransactionState.ABORTING, 2, StatementState.WAITING),
        (TransactionState.BEGUN, 1, StatementState.FAILED),
        # Its rows are complete: it is finished however often a driver is lost.
        (TransactionState.COMMITTING, 1, StatementState.WAITING),
    ],
)
def test_what_becomes_of_a_statement_whose_driver_is_lost(
    store: Database, state: TransactionState, max_attempts: int, after: StatementState
) -> None:
    held = Held(store)
    held.bring_to(state)
    assert held.declare_lost(max_attempts=max_attempts) is after


def test_without_a_transaction_nothing_is_run_again(store: Database) -> None:
    assert Held(store).declare_lost() is StatementState.FAILED


def test_the_next_driver_holds_what_is_left(store: Database) -> None:
    held = Held(store)
    held.bring_to(TransactionState.COMMITTING)
    assert held.declare_lost() is StatementState.WAITING
    # Not even while it waits.
    with pytest.raises(Committing):
        held.cancel()
    with store.write("test") as tx:
        epoch = takeovers.claim_launch(
            tx, held.session, node="no_1", seconds=60, token_hash="other"
        )
        assert epoch is not None
        running = SessionState.RUNNING
        assert sessions.transition(tx, held.session, running, actor="driver", epoch=epoch)
        claimed = statement_transitions.claim_next(tx, held.session, epoch, actor="driver")
        assert claimed is not None
        assert (claimed.id, claimed.attempts) == (held.statement, 2)
        left = transactions.adopt(tx, held.statement, held.session, epoch)
    assert left == replace(held.known(), epoch=epoch)
    assert not held.advance(TransactionState.COMMITTED)
    held.epoch = epoch
    assert held.advance(TransactionState.COMMITTED)


def test_what_is_published_is_journalled_whatever_comes_in_between(store: Database) -> None:
    held = Held(store)
    held.bring_to(TransactionState.BEGUN, BY_ITSELF)
    assert held.cancel() is StatementState.CANCELLING
    assert not held.advance(TransactionState.COMMITTING)
    assert held.advance(TransactionState.COMMITTING, published=True)
    assert held.advance(TransactionState.COMMITTED)


def test_nobody_stops_what_may_be_published_already(store: Database) -> None:
    held = Held(store)
    held.bring_to(TransactionState.BEGUN, BY_ITSELF)
    assert held.declare_lost() is StatementState.WAITING
    with pytest.raises(Committing):
        held.cancel()


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_is_tried_no_more_and_may_be_published_is_in_doubt(
    store: Database, cancelled: bool
) -> None:
    held = Held(store)
    held.bring_to(TransactionState.BEGUN, BY_ITSELF)
    if cancelled:
        held.cancel()
    assert held.declare_lost(max_attempts=1) is StatementState.FAILED
    with store.read() as tx:
        found = statements.get(tx, held.statement)
    assert found is not None
    assert found.failure is not None
    assert found.failure.code == "commit_in_doubt"


def test_a_session_that_ends_says_what_is_in_doubt(store: Database) -> None:
    doubtful, begun = Held(store), Held(store)
    doubtful.bring_to(TransactionState.COMMITTING)
    begun.bring_to(TransactionState.BEGUN)
    failure = Failure(code="session_closed", message="It was closed.")
    for held, code in ((doubtful, "commit_in_doubt"), (begun, "session_closed")):
        with store.write("test") as tx:
            statement_transitions.end_all_statements(tx, held.session, actor="ada", failure=failure)
            found = statements.get(tx, held.statement)
        assert found is not None
        assert found.failure is not None
        assert (found.state, found.failure.code) == (StatementState.FAILED, code)
        assert "It was closed." in found.failure.message


def test_what_is_told_of_an_end_is_kept(store: Database) -> None:
    held = Held(store)
    with store.write("test") as tx:
        statement_transitions.set_outcome_notes(tx, held.statement, atomic=True, note="done")
        found = statements.get(tx, held.statement)
    assert found is not None
    assert (found.atomic, found.note) == (True, "done")


def left_of(store: Database, identities: list[str] | None = None) -> list[str]:
    with store.read() as tx:
        return [one.id for one in transactions.orphaned(tx, limit=100, identities=identities)]


def aged(store: Database, session: str) -> None:
    """A while after it has ended."""
    with store.write("test") as tx:
        long_ago = update(sessions_table).where(sessions_table.c.id == session)
        tx.execute(long_ago.values(ended_at=clock(-2 * transactions.GONE_SECONDS)))


def test_what_nobody_drives_any_more_is_taken_over_once(store: Database) -> None:
    held = Held(store)
    here = STAGED.model_copy(update={"identity": held.id})
    assert held.prepare(here)
    assert held.advance(TransactionState.BEGUN)
    assert held.id not in left_of(store)
    # Its statement is tried no more, and its driver is gone.
    assert held.declare_lost(max_attempts=1) is StatementState.FAILED
    assert left_of(store, [held.id]) == [held.id]
    assert left_of(store, ["elsewhere"]) == []
    other, epoch = running_session(store)
    for expected in ([held.id], []):
        with store.write("test") as tx:
            taken = transactions.take_over_orphaned(tx, [held.id], other, epoch, limit=10)
        assert [one.id for one in taken] == expected
    assert not held.advance(TransactionState.ABORTING)
    held.session, held.epoch = other, epoch
    assert held.advance(TransactionState.ABORTING)
    assert held.advance(TransactionState.ABORTED)
    assert left_of(store, [held.id]) == []


def test_what_a_statement_will_take_up_is_not_left(store: Database) -> None:
    held = Held(store)
    held.bring_to(TransactionState.COMMITTING)
    assert held.declare_lost() is StatementState.WAITING
    assert held.id not in left_of(store)


def test_of_a_session_that_ends_it_is_left_after_a_while(store: Database) -> None:
    held = Held(store)
    here = STAGED.model_copy(update={"identity": held.id})
    assert held.prepare(here)
    for step in (TransactionState.BEGUN, TransactionState.COMMITTING):
        assert held.advance(step)
    failure = Failure(code="session_closed", message="It was closed.")
    with store.write("test") as tx:
        assert sessions.transition(
            tx, held.session, SessionState.FAILED, actor="x", failure=failure
        )
        statement_transitions.end_all_statements(tx, held.session, actor="x", failure=failure)
    # Its process may be about to end.
    assert left_of(store, [held.id]) == []
    aged(store, held.session)
    assert left_of(store, [held.id]) == [held.id]


def test_an_owner_sees_their_own(store: Database) -> None:
    held = Held(store)
    held.bring_to(TransactionState.PREPARED)
    with store.read() as tx:
        assert transactions.is_owned(tx, "ada", held.id)
        assert not transactions.is_owned(tx, "bob", held.id)
        shown = transactions.page(tx, owner="ada", before=None, limit=1000)
        assert transactions.page(tx, owner="bob", before=None, limit=10) == []
        earlier = transactions.page(tx, owner="ada", before=held.id, limit=1000)
    assert held.id in [one.id for one in shown]
    assert held.id not in [one.id for one in earlier]
