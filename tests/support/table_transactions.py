"""A running statement that creates a two-phase table, in any state of its transaction."""

from __future__ import annotations

from tests.support.store import LOST, OWNER, new_statement, running_session

from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState, TransactionState
from headrace.model.session import DriverLease
from headrace.model.statement import Statement
from headrace.model.transaction import Staged, Transaction
from headrace.store import transactions
from headrace.store.database import Database
from headrace.store.sessions import takeovers
from headrace.store.statements import statement_transitions, statements

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

    def __init__(self, store: Database, *, owner: str = OWNER) -> None:
        self.store = store
        self.lease = running_session(store, owner=owner)
        self.statement = new_statement(
            store, self.lease.session_id, StatementState.RUNNING, owner=owner, lease=self.lease
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
            takeovers.resolve_lost(
                tx, session_id, actor="no_1", failure=LOST, max_attempts=max_attempts
            )
        return self.get_statement().state
