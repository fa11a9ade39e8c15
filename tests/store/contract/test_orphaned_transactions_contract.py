"""Contract of lists of table transactions, and of the takeover of orphaned ones."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.store import OWNER, new_session, read_changes, running_session
from tests.support.table_transactions import STAGED, Creation

from headrace.errors import TooManyTransactions
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState, TransactionState
from headrace.model.session import DriverLease
from headrace.model.transaction import TransactionSummary
from headrace.store import transactions
from headrace.store.clock import clock, read_clock
from headrace.store.database import Database
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statement_transitions
from headrace.store.tables import sessions as sessions_table
from headrace.store.tables import statements
from headrace.store.tables import transactions as transactions_table


def orphaned_ids(store: Database) -> list[str]:
    with store.read() as tx:
        orphans = transactions.orphaned(tx, owners=["ada"], limit=100)
    assert all(transaction.orphaned for transaction in orphans)
    return [transaction.id for transaction in orphans]


def has_orphaned(store: Database, identity: str | None = None, *, owner: str = OWNER) -> bool:
    reader = new_session(store, owner=owner)
    with store.read() as tx:
        found = transactions.has_orphaned(tx, reader, None if identity is None else [identity])
        if identity is None:
            others = [reader, "se_" + "0" * 32]
            assert transactions.find_recovering(tx, others) == ({reader} if found else set())
    return found


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
    assert has_orphaned(store)
    assert not has_orphaned(store, "elsewhere")
    # Another owner's driver may lack the rights, and must not learn of the table.
    foreign = running_session(store, owner="eve")
    assert not has_orphaned(store, creation.id, owner="eve")
    with store.write("test") as tx:
        assert transactions.take_over_orphaned(tx, [creation.id], foreign, limit=10) == []
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
        own = transactions.summary(tx, creation.id, owners=["ada"])
        assert transactions.summary(tx, creation.id, owners=["bob"]) is None
        page = transactions.page(tx, owners=["ada"], before=None, limit=1000)
        assert transactions.page(tx, owners=["bob"], before=None, limit=10) == []
        earlier = transactions.page(tx, owners=["ada"], before=creation.id, limit=1000)
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


def lose_in_state(store: Database, state: TransactionState) -> Creation:
    """Return a transaction in a catalog of its own whose driver is lost in a state."""
    creation = Creation(store)
    assert creation.prepare(STAGED.model_copy(update={"identity": creation.id}))
    for step in (TransactionState.BEGUN, TransactionState.COMMITTING):
        if creation.advance(step) and step is state:
            break
    set_attempts(store, creation, takeovers.COMMIT_ATTEMPTS)
    assert creation.lose_driver(max_attempts=1) is StatementState.FAILED
    assert creation.id in orphaned_ids(store)
    return creation


def set_attempts(store: Database, creation: Creation, attempts: int) -> None:
    with store.write("test") as tx:
        query = update(statements).where(statements.c.id == creation.statement)
        tx.execute(query.values(attempts=attempts))


def take_over(store: Database, creation: Creation, driver: DriverLease) -> bool:
    with store.write("test") as tx:
        return bool(transactions.take_over_orphaned(tx, [creation.id], driver, limit=10))


def give_up(store: Database, creation: Creation, driver: DriverLease, error: str) -> int | None:
    with store.write("test") as tx:
        return transactions.give_up(tx, creation.id, driver, error)


def end_pause(store: Database, creation: Creation) -> None:
    with store.write("test") as tx:
        query = update(transactions_table).where(transactions_table.c.id == creation.id)
        tx.execute(query.values(retry_at=clock(-1)))


def read(store: Database, creation: Creation) -> TransactionSummary:
    with store.read() as tx:
        summary = transactions.summary(tx, creation.id, owners=["ada"])
    assert summary is not None
    return summary


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("state", [TransactionState.BEGUN, TransactionState.COMMITTING])
def test_an_orphan_that_cannot_be_resolved_is_retried_with_a_growing_pause(
    store: Database, state: TransactionState
) -> None:
    creation = lose_in_state(store, state)
    driver = running_session(store)
    pauses = []
    with store.read() as tx:
        now = read_clock(tx.connection)
    for attempt in range(1, transactions.REPORTED_ATTEMPTS + 3):
        assert take_over(store, creation, driver)
        # The driver that works on it does not get it again, nor does another one.
        assert not take_over(store, creation, driver)
        assert give_up(store, creation, driver, f"no access {attempt}") == attempt
        summary = read(store, creation)
        assert summary.orphaned
        assert (summary.state, summary.attempts) == (state, attempt)
        assert summary.last_error == f"no access {attempt}"
        assert summary.retry_at is not None
        pauses.append((summary.retry_at - now).total_seconds())
        assert not take_over(store, creation, driver)
        assert not has_orphaned(store, creation.id)
        end_pause(store, creation)
    assert pauses == [5, 10, 20, 40, 80, 160, 300]
    assert take_over(store, creation, driver)


def test_an_unresolved_transaction_is_reported_once_and_counted(store: Database) -> None:
    creation = lose_in_state(store, TransactionState.COMMITTING)
    driver = running_session(store)
    with store.read() as tx:
        before = transactions.count_unresolved(tx)
    for _ in range(transactions.REPORTED_ATTEMPTS + 1):
        assert take_over(store, creation, driver)
        give_up(store, creation, driver, "the staged table belongs to another user")
        end_pause(store, creation)
    with store.read() as tx:
        reported = [
            event.detail
            for event in read_changes(tx, entity_id=creation.id)
            if event.source == event.target == "committing"
        ]
        assert transactions.count_unresolved(tx) == before + 1
    assert [detail["attempts"] for detail in reported] == [transactions.REPORTED_ATTEMPTS]
    assert take_over(store, creation, driver)
    with store.write("test") as tx:
        assert transactions.advance(
            tx, creation.id, TransactionState.COMMITTED, lease=driver, actor="test"
        )
        assert transactions.count_unresolved(tx) == before


@pytest.mark.usefixtures("stopped_clock")
def test_a_recovery_by_hand_does_not_wait_for_the_pause(store: Database) -> None:
    creation = lose_in_state(store, TransactionState.COMMITTING)
    driver = running_session(store)
    assert take_over(store, creation, driver)
    give_up(store, creation, driver, "no access")
    for owner, is_due in (("eve", False), ("ada", True)):
        with store.write("test") as tx:
            transactions.retry_now(tx, owners=[owner])
        assert has_orphaned(store, creation.id) is is_due


def test_a_driver_gives_up_only_what_it_has_taken_over(store: Database) -> None:
    creation = Creation(store)
    assert creation.prepare(STAGED.model_copy(update={"identity": creation.id}))
    assert give_up(store, creation, creation.lease, "no") is None
    creation.lose_driver(max_attempts=1)
    first, second = (running_session(store) for _ in range(2))
    assert take_over(store, creation, first)
    assert give_up(store, creation, second, "no") is None
    assert give_up(store, creation, first, "no") == 1


def test_a_commit_that_no_driver_finishes_is_in_doubt_after_a_bounded_number_of_drivers(
    store: Database,
) -> None:
    states = []
    for attempts in range(1, takeovers.COMMIT_ATTEMPTS + 1):
        creation = Creation(store)
        own = STAGED.model_copy(update={"identity": creation.id})
        creation.bring_to(TransactionState.COMMITTING, own)
        set_attempts(store, creation, attempts)
        states.append(creation.lose_driver(max_attempts=2))
        assert (creation.id in orphaned_ids(store)) is (states[-1] is StatementState.FAILED)

    assert states == [StatementState.WAITING] * 4 + [StatementState.FAILED]
    assert read(store, creation).state is TransactionState.COMMITTING
