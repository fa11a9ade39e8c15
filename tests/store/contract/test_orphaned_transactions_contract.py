"""Contract of lists of table transactions, and of the takeover of orphaned ones."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.store import OWNER, new_session, running_session
from tests.support.table_transactions import STAGED, Creation

from headrace.errors import TooManyTransactions
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import SessionState, StatementState, TransactionState
from headrace.store import sessions, statement_transitions, transactions
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.tables import sessions as sessions_table


def orphaned_ids(store: Database) -> list[str]:
    with store.read() as tx:
        orphans = transactions.orphaned(tx, owner="ada", limit=100)
    assert all(transaction.orphaned for transaction in orphans)
    return [transaction.id for transaction in orphans]


def has_orphaned(store: Database, identity: str | None = None, *, owner: str = OWNER) -> bool:
    reader = new_session(store, owner=owner)
    with store.read() as tx:
        return transactions.has_orphaned(tx, reader, None if identity is None else [identity])


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
