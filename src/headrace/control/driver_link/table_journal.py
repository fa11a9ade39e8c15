"""The journal of two-phase tables, as drivers keep it over the link.

Every method takes the session and epoch that the driver's token is good for, and raises LeaseLost
where they are over.
"""

from __future__ import annotations

from headrace.control.driver_link.driver_lease import driver_actor, load_owned_view
from headrace.errors import InvalidRequest, TableBusy
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import OrphanedTransaction, Recover, Recovered, Transact, Transacted
from headrace.model.transaction import Transaction
from headrace.store import transactions
from headrace.store.database import Database, Tx

_MOST_LEFT = 100
"""Transactions that one driver takes over at once."""


class TableJournal:
    """Answers drivers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def transact(self, session_id: str, epoch: int, message: Transact) -> Transacted:
        """A table transaction comes to its next state."""
        actor = driver_actor(session_id, epoch)
        try:
            with self._database.write() as tx:
                if message.state is TransactionState.PREPARED:
                    applied = transactions.prepare(
                        tx, _new(session_id, epoch, message), actor=actor
                    )
                else:
                    applied = transactions.advance(
                        tx,
                        message.id,
                        message.state,
                        session_id=session_id,
                        epoch=epoch,
                        actor=actor,
                        staged=message.staged,
                        published=message.published,
                    )
                if not applied:
                    load_owned_view(tx, session_id, epoch)
        except TableBusy:
            return Transacted(applied=False, busy=True)
        return Transacted(applied=applied)

    def recover(self, session_id: str, epoch: int, message: Recover) -> Recovered:
        """What others have left of the driver's catalogs is its to finish."""
        with self._database.read() as tx:
            load_owned_view(tx, session_id, epoch)
            found = transactions.orphaned(tx, limit=1, identities=message.identities)
        if not found:
            return Recovered(left=[])
        with self._database.write() as tx:
            load_owned_view(tx, session_id, epoch)
            taken = transactions.take_over_orphaned(
                tx, message.identities, session_id, epoch, limit=_MOST_LEFT
            )
        return Recovered(
            left=[
                OrphanedTransaction(
                    id=one.id, state=one.state, staged=one.staged, statement_id=one.statement_id
                )
                for one in taken
            ]
        )


def committed(tx: Tx, session_id: str, epoch: int, transaction_id: str) -> None:
    """In the transaction in which its statement becomes a success."""
    transactions.advance(
        tx,
        transaction_id,
        TransactionState.COMMITTED,
        session_id=session_id,
        epoch=epoch,
        actor=driver_actor(session_id, epoch),
    )


def _new(session_id: str, epoch: int, message: Transact) -> Transaction:
    if message.staged is None:
        raise InvalidRequest("A transaction is journalled with what is staged.")
    return Transaction(
        id=message.id,
        statement_id=message.statement_id,
        session_id=session_id,
        epoch=epoch,
        state=message.state,
        staged=message.staged,
    )
