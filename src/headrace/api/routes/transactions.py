"""`/transactions`: the transactions of statements that change a table atomically."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from headrace.api.auth import Authenticated
from headrace.api.context import node_of
from headrace.api.http.api_route import ApiRoute
from headrace.api.http.paging import Before, Limit
from headrace.api.http.problems import problems
from headrace.api.http.responses import json_response
from headrace.api.http.serializers import transaction_body
from headrace.api.http.transaction_schemas import TransactionBody, TransactionPage

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
