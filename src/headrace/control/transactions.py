"""The service for table transactions: the tables that CTAS statements create atomically."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.control.caller import Caller
from headrace.control.context import NodeContext
from headrace.errors import TransactionNotFound
from headrace.model.ids import looks_like_id
from headrace.model.transaction import Transaction
from headrace.store import transactions

_MAX_ORPHANED = 1000
_SHOWN = 200
"""Largest number of characters of an id in a message."""


@dataclass(frozen=True, slots=True)
class TransactionStatus:
    """A transaction, and whether it is orphaned."""

    transaction: Transaction
    orphaned: bool
    """Whether its statement has ended and no driver works on it."""


class Transactions:
    """Table transactions of all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def get(self, caller: Caller, transaction_id: str) -> TransactionStatus:
        """Return a transaction of the caller. Raise TransactionNotFound if there is none."""
        if not looks_like_id(transaction_id):
            raise TransactionNotFound(f"Transaction {transaction_id[:_SHOWN]!r} does not exist.")
        with self._database.read() as tx:
            transaction = transactions.get(tx, transaction_id)
            if transaction is None or not transactions.is_owned(tx, caller.owner, transaction_id):
                raise TransactionNotFound(f"Transaction {transaction_id!r} does not exist.")
            orphaned = transactions.orphaned(tx, limit=1, among=[transaction.id])
        return TransactionStatus(transaction, orphaned=bool(orphaned))

    def page(self, caller: Caller, *, before: str | None, limit: int) -> list[TransactionStatus]:
        """Return at most `limit` transactions of the caller from before an id, newest first."""
        with self._database.read() as tx:
            page = transactions.page(tx, owner=caller.owner, before=before, limit=limit)
            ids = [transaction.id for transaction in page]
            orphaned = transactions.orphaned(tx, limit=len(ids), among=ids) if ids else []
        orphaned_ids = {transaction.id for transaction in orphaned}
        return [
            TransactionStatus(transaction, orphaned=transaction.id in orphaned_ids)
            for transaction in page
        ]

    def orphaned(self, caller: Caller) -> list[TransactionStatus]:
        """Return the transactions of the caller among the 1,000 oldest orphaned transactions."""
        with self._database.read() as tx:
            return [
                TransactionStatus(transaction, orphaned=True)
                for transaction in transactions.orphaned(tx, limit=_MAX_ORPHANED)
                if transactions.is_owned(tx, caller.owner, transaction.id)
            ]
