"""The service for table transactions: the tables that CTAS statements create atomically."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.control.context import NodeContext
from headrace.control.policy import Caller, listed_owners, require_creator, visible_owners
from headrace.errors import TransactionNotFound
from headrace.model.ids import looks_like_id
from headrace.model.stream_query import PendingSink
from headrace.model.transaction import TransactionSummary
from headrace.store import catalog_intents, transactions
from headrace.store.database import Tx

_MAX_ORPHANED = 1000
_SHOWN = 200
"""Largest number of characters of an id in a message."""


@dataclass(frozen=True, slots=True)
class PendingRecovery:
    """What lost drivers have left outside the store."""

    transactions: list[TransactionSummary]
    """Orphaned transactions, oldest first."""
    sinks: list[PendingSink]
    """Ended queries whose sinks are not cleared, oldest first."""


class Transactions:
    """Table transactions of all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def get(self, caller: Caller, transaction_id: str) -> TransactionSummary:
        """Return a transaction of the caller. Raise TransactionNotFound if there is none."""
        if not looks_like_id(transaction_id):
            raise TransactionNotFound(f"Transaction {transaction_id[:_SHOWN]!r} does not exist.")
        with self._database.read() as tx:
            transaction = transactions.summary(tx, transaction_id, owners=visible_owners(caller))
        if transaction is None:
            raise TransactionNotFound(f"Transaction {transaction_id!r} does not exist.")
        return transaction

    def page(
        self, caller: Caller, *, before: str | None, limit: int, all_owners: bool = False
    ) -> list[TransactionSummary]:
        """Return at most `limit` transactions of the owners that `caller` lists, newest first.

        Their ids are below `before`.
        """
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            return transactions.page(tx, owners=owners, before=before, limit=limit)

    def orphaned(self, caller: Caller, *, all_owners: bool = False) -> list[TransactionSummary]:
        """Return the 1,000 oldest orphaned transactions of the owners that `caller` lists."""
        owners = listed_owners(caller, all_owners=all_owners)
        with self._database.read() as tx:
            return transactions.orphaned(tx, owners=owners, limit=_MAX_ORPHANED)

    def list_pending(self, caller: Caller) -> PendingRecovery:
        """Return what lost drivers have left in catalogs and sinks of the caller."""
        with self._database.read() as tx:
            return _list_pending(tx, caller)

    def retry_now(self, caller: Caller) -> PendingRecovery:
        """Let the next drivers complete or remove the same without a pause. Return it.

        Raises NotPermitted if the caller may not create objects either.
        """
        require_creator(caller, "objects")
        with self._database.write("recovery.retry") as tx:
            transactions.retry_now(tx, owners=caller.owners)
            catalog_intents.retry_sinks_now(tx, caller.owners, actor=caller.actor)
            return _list_pending(tx, caller)


def _list_pending(tx: Tx, caller: Caller) -> PendingRecovery:
    orphaned = transactions.orphaned(tx, owners=caller.owners, limit=_MAX_ORPHANED)
    return PendingRecovery(orphaned, catalog_intents.list_sinks(tx, caller.owners))
