"""`/transactions`: the transactions of statements that change a table atomically."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from headrace.control.transactions import PendingRecovery
from headrace.frontends.http.api_route import AllOwners, ApiRoute, Before, Limit, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT, LATER, SESSION_ID, STATEMENT_ID, STREAM_ID
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import (
    Instant,
    Json,
    MaskedMessage,
    ResponseModel,
    fill,
    has_examples,
    page_of,
)
from headrace.model.lifecycle import IntentState, TransactionState
from headrace.model.stream_query import PendingSink

TransactionIdPath = Annotated[str, Path(description="id of the transaction")]

_TRANSACTION: Json = {
    "id": "tx_019358f0e5c37a20c1d2e3f4a5b6c7d8",
    "statement_id": STATEMENT_ID,
    "session_id": SESSION_ID,
    "state": "committed",
    "catalog": "spark_catalog",
    "target": "`sales`.`orders`",
    "orphaned": False,
    "attempts": 0,
    "retry_at": None,
    "last_error": None,
    "created_at": AT,
    "ended_at": LATER,
}


_ORPHANED_TRANSACTION: Json = {
    **_TRANSACTION,
    "state": "committing",
    "orphaned": True,
    "attempts": 1,
    "retry_at": LATER,
    "last_error": "The catalog does not answer.",
    "ended_at": None,
}


_SINK: Json = {
    "query_id": STREAM_ID,
    "name": "adhoc.orders",
    "session_id": SESSION_ID,
    "state": "pending",
    "attempts": 1,
    "last_error": "The connection was refused.",
}


@has_examples(_TRANSACTION)
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
    last_error: MaskedMessage | None
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
    last_error: MaskedMessage | None
    """Why the last attempt failed."""


@has_examples({"transactions": [_ORPHANED_TRANSACTION], "sinks": [_SINK]})
class RecoveryBody(ResponseModel):
    """What lost drivers have left."""

    transactions: list[TransactionBody]
    """The 1,000 oldest transactions on which no driver works."""
    sinks: list[PendingSinkBody]
    """The 1,000 oldest ended queries whose sinks are not cleared."""


@has_examples(page_of(_TRANSACTION))
class TransactionPage(ResponseModel):
    """A page of transactions."""

    items: list[TransactionBody]
    """The transactions."""
    next: str | None
    """The `before` of the next page; null on the last page."""


def pending_sink_body(sink: PendingSink) -> PendingSinkBody:
    """Return the body of a sink that is to be cleared."""
    return fill(PendingSinkBody, sink, name=f"{sink.scope}.{sink.name}")


router = APIRouter(prefix="/transactions", tags=["transactions"], route_class=ApiRoute)


@router.get("", response_model=TransactionPage)
def list_transactions(
    request: Request,
    caller: Authenticated,
    orphaned: Annotated[
        bool, Query(description="only transactions on which no driver works, oldest first")
    ] = False,
    before: Before = None,
    limit: Limit = 100,
    all_owners: AllOwners = False,
) -> Response:
    """List transactions, newest first."""
    transactions = node_of(request).transactions
    if orphaned:
        items = [
            fill(TransactionBody, status)
            for status in transactions.orphaned(caller, all_owners=all_owners)
        ]
        return json_response(TransactionPage(items=items, next=None))
    statuses = transactions.page(caller, before=before, limit=limit + 1, all_owners=all_owners)
    items = [fill(TransactionBody, status) for status in statuses[:limit]]
    next_ = items[-1].id if len(statuses) > limit else None
    return json_response(TransactionPage(items=items, next=next_))


@router.get("/{transaction}", response_model=TransactionBody, responses=problems(404))
def show_transaction(
    request: Request, caller: Authenticated, transaction: TransactionIdPath
) -> Response:
    """Show one transaction."""
    status = node_of(request).transactions.get(caller, transaction)
    return json_response(fill(TransactionBody, status))


recovery_router = APIRouter(prefix="/recovery", tags=["transactions"], route_class=ApiRoute)


@recovery_router.get("", response_model=RecoveryBody)
def show_recovery(request: Request, caller: Authenticated) -> Response:
    """Show what drivers have to complete or to remove for lost drivers."""
    return _respond(node_of(request).transactions.list_pending(caller))


@recovery_router.post("", response_model=RecoveryBody)
def retry_recovery(request: Request, caller: Authenticated) -> Response:
    """Let the next drivers attempt it now, without the pause after a failed attempt.

    The answer is that of GET.
    """
    return _respond(node_of(request).transactions.retry_now(caller))


def _respond(pending: PendingRecovery) -> Response:
    transactions = [fill(TransactionBody, each) for each in pending.transactions]
    sinks = [pending_sink_body(each) for each in pending.sinks]
    return json_response(RecoveryBody(transactions=transactions, sinks=sinks))
