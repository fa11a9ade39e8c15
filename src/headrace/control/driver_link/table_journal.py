"""The journal of two-phase tables, as drivers write it over the link.

The calls `transact` and `recover` raise LeaseLost if the driver no longer owns its session.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.control.context import NodeContext
from headrace.control.driver_link.expectations import save_counts
from headrace.control.driver_link.views import commit_generation
from headrace.errors import InvalidRequest, TableBusy
from headrace.model.lifecycle import STATEMENT, TRANSACTION, TransactionState
from headrace.model.materialized_view import SwitchedView
from headrace.model.messages import (
    FailedRecovery,
    JournalEntry,
    OrphanedTransaction,
    Recover,
    Recovered,
    Transact,
    Transacted,
)
from headrace.model.session import DriverLease
from headrace.model.text import MAX_SUMMARY, clean_message, cut_text
from headrace.model.transaction import Transaction
from headrace.store import transactions
from headrace.store.database import Precedence, Tx
from headrace.store.sessions.lease_renewals import load_owned_view
from headrace.store.statements import statements
from headrace.store.streams import views

_LOG = logging.getLogger("headrace.transactions")
_MAX_RECOVERED = 10
"""Largest number of transactions that a driver takes over with one call."""


class TableJournal:
    """Serves the calls `transact` and `recover`."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._grace_seconds = context.view_grace_seconds

    def transact(self, lease: DriverLease, message: Transact) -> Transacted:
        """Move a table transaction to its next state, or create it in the state `prepared`.

        Raise InvalidRequest if the first call has no record of the staged table, and
        TooManyTransactions if the driver has begun too many for the statement.
        """
        try:
            with self._database.write("link.transact", precedence=Precedence.REPORTS) as tx:
                if message.state is TransactionState.PREPARED:
                    new = _new_transaction(lease, message)
                    applied = transactions.prepare(tx, new, actor=lease.actor)
                else:
                    applied = transactions.advance(
                        tx,
                        message.id,
                        message.state,
                        lease=lease,
                        actor=lease.actor,
                        staged=message.staged,
                        published=message.published,
                    )
                if not applied:
                    load_owned_view(tx, lease)
                elif message.state is TransactionState.COMMITTING:
                    _save_counts(tx, message)
                elif message.state in TRANSACTION.terminal:
                    apply_end(tx, lease, message.id, grace_seconds=self._grace_seconds)
        except TableBusy:
            return Transacted(applied=False, busy=True)
        return Transacted(applied=applied)

    def recover(self, lease: DriverLease, message: Recover) -> Recovered:
        """Give a few orphaned transactions of the driver's catalogs to the driver.

        Those that the driver could not resolve wait for the next attempt.
        """
        if message.failed:
            self._give_up(lease, message.failed)
        with self._database.read() as tx:
            load_owned_view(tx, lease)
            has_orphaned = transactions.has_orphaned(tx, lease.session_id, message.identities)
        if not has_orphaned:
            return Recovered(orphaned=[])
        with self._database.write("link.recover") as tx:
            load_owned_view(tx, lease)
            recovered = transactions.take_over_orphaned(
                tx, message.identities, lease, limit=_MAX_RECOVERED
            )
            orphaned = [
                OrphanedTransaction(
                    **dict(make_entry(tx, transaction)), statement_id=transaction.statement_id
                )
                for transaction in recovered
            ]
        return Recovered(orphaned=orphaned)

    def _give_up(self, lease: DriverLease, failed: Sequence[FailedRecovery]) -> None:
        with self._database.write("link.recover") as tx:
            load_owned_view(tx, lease)
            for failure in failed:
                error = cut_text(clean_message(failure.message), MAX_SUMMARY)
                attempts = transactions.give_up(tx, failure.id, lease, error)
                if attempts is not None and attempts >= transactions.REPORTED_ATTEMPTS:
                    _LOG.error(
                        "transaction %s is not resolved after %d attempts: %s",
                        failure.id,
                        attempts,
                        error,
                    )


def _save_counts(tx: Tx, message: Transact) -> None:
    """Store what was counted of rows that will be published, whichever driver completes it."""
    counts = None if message.staged is None else message.staged.expectation_counts
    transaction = None if counts is None else transactions.get(tx, message.id)
    if counts is not None and transaction is not None:
        save_counts(tx, transaction.statement_id, counts)


def make_entry(tx: Tx, transaction: Transaction) -> JournalEntry:
    """Return what the next driver needs to finish a transaction, or to roll it back.

    The record comes from an earlier driver. The view does not, because a forged one would let the
    next driver change the view of another user.
    """
    view = views.of_writer(tx, transaction.statement_id)
    return JournalEntry(
        id=transaction.id,
        state=transaction.state,
        staged=transaction.staged,
        staged_epoch=transaction.staged_epoch,
        view=None if view is None else SwitchedView(id=view.id, path=view.rows.path),
    )


def mark_committed(
    tx: Tx, lease: DriverLease, transaction_id: str, statement_id: str, *, grace_seconds: float
) -> None:
    """Move a transaction to `committed`, in the store transaction that ends its statement.

    Do nothing if the transaction belongs to another statement.
    """
    transaction = transactions.get(tx, transaction_id)
    if transaction is not None and transaction.statement_id == statement_id:
        target = TransactionState.COMMITTED
        if transactions.advance(tx, transaction_id, target, lease=lease, actor=lease.actor):
            apply_end(tx, lease, transaction_id, grace_seconds=grace_seconds)


def apply_end(tx: Tx, lease: DriverLease, transaction_id: str, *, grace_seconds: float) -> None:
    """Apply the end of a transaction to the materialized view whose rows its table holds.

    Args:
        grace_seconds: Time for which a replaced generation of the view stays.
    """
    transaction = transactions.get(tx, transaction_id)
    assert transaction is not None
    if transaction.state is TransactionState.COMMITTED:
        commit_generation(tx, transaction, actor=lease.actor, grace_seconds=grace_seconds)
    statement = statements.get(tx, transaction.statement_id)
    if statement is not None and statement.state in STATEMENT.terminal:
        views.end_unfinished(tx, statement.id, actor=lease.actor)


def _new_transaction(lease: DriverLease, message: Transact) -> Transaction:
    if message.staged is None:
        raise InvalidRequest("The state 'prepared' needs the record of the staged table.")
    return Transaction(
        id=message.id,
        statement_id=message.statement_id,
        session_id=lease.session_id,
        epoch=lease.epoch,
        state=message.state,
        staged=message.staged,
        staged_epoch=lease.epoch,
    )
