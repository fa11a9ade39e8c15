"""Bodies of the routes of table transactions. See schemas.py."""

from __future__ import annotations

from headrace.api.http.schemas import Instant, ResponseModel
from headrace.model.lifecycle import TransactionState


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
    created_at: Instant
    """When the transaction was prepared."""
    ended_at: Instant | None
    """When it was committed or aborted."""


class TransactionPage(ResponseModel):
    """A page of transactions."""

    items: list[TransactionBody]
    """The transactions."""
    next: str | None
    """The `before` of the next page; null on the last page."""
