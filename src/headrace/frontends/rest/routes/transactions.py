"""`/transactions`: the transactions of statements that change a table atomically."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from headrace.control.transactions import PendingRecovery
from headrace.frontends.http.api_route import ApiRoute, Before, Limit, json_response
from headrace.frontends.http.auth import Authenticated
from headrace.frontends.http.context import node_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.schemas import RecoveryBody, TransactionBody, TransactionPage
from headrace.frontends.rest.serializers import pending_sink_body, transaction_body

TransactionIdPath = Annotated[str, Path(description="id of the transaction")]

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
) -> Response:
    """List transactions, newest first."""
    transactions = node_of(request).transactions
    if orphaned:
        items = [transaction_body(status) for status in transactions.orphaned(caller)]
        return json_response(TransactionPage(items=items, next=None))
    statuses = transactions.page(caller, before=before, limit=limit + 1)
    items = [transaction_body(status) for status in statuses[:limit]]
    next_ = items[-1].id if len(statuses) > limit else None
    return json_response(TransactionPage(items=items, next=next_))


@router.get("/{transaction}", response_model=TransactionBody, responses=problems(404))
def show_transaction(
    request: Request, caller: Authenticated, transaction: TransactionIdPath
) -> Response:
    """Show one transaction."""
    status = node_of(request).transactions.get(caller, transaction)
    return json_response(transaction_body(status))


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
    transactions = [transaction_body(each) for each in pending.transactions]
    sinks = [pending_sink_body(each) for each in pending.sinks]
    return json_response(RecoveryBody(transactions=transactions, sinks=sinks))
