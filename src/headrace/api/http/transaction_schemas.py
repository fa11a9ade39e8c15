"""Bodies of the routes of table transactions. See schemas.py."""

from __future__ import annotations

from headrace.api.http.schemas import Instant, ResponseModel
from headrace.model.lifecycle import IntentState, TransactionState


class TransactionBody(ResponseModel):
    """The transaction of a statement that creates or changes a table atomically."""

    id: str
    """Id of the transaction."""
    statement_id: str
    """Id of the statement."""
    session_id: str
    """Session whose driver works on the transaction, or last did."""
    state: TransactionState | str
    """State of the transaction."""
    catalog: str
    """Name of the catalog."""
    target: str
    """Name of the table within the catalog."""
    orphaned: bool
    """Whether the statement has ended and no driver works on the transaction."""
    attempts: int
    """Attempts of drivers to complete the transaction, or to roll it back, while it was orphaned.
    """
    retry_at: Instant | None
    """Time before which no driver attempts that again. `headrace recover` does not wait."""
    last_error: str | None
    """Why the last attempt failed."""
    created_at: Instant
    """When the transaction was prepared."""
    ended_at: Instant | None
    """When it was committed or aborted."""


class PendingSinkBody(ResponseModel):
    """An ended streaming query, in whose sink lost drivers may have left staged rows."""

    query_id: str
    """Id of the query."""
    name: str
    """Scope and name of the query."""
    session_id: str
    """Session of the query."""
    state: IntentState | str
    """State of the intent to remove the rows."""
    attempts: int
    """Attempts of drivers to remove them."""
    last_error: str | None
    """Why the last attempt failed."""


class RecoveryBody(ResponseModel):
    """What lost drivers have left."""

    transactions: list[TransactionBody]
    """The 1,000 oldest transactions on which no driver works."""
    sinks: list[PendingSinkBody]
    """The 1,000 oldest ended queries whose sinks are not cleared."""


class TransactionPage(ResponseModel):
    """A page of transactions."""

    items: list[TransactionBody]
    """The transactions."""
    next: str | None
    """The `before` of the next page; null on the last page."""
