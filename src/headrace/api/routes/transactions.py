"""`/transactions`: tables that are created whole or not at all, and what has been left of them."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.api.auth import OWNER
from headrace.api.context import node_of
from headrace.api.http.paging import Before, Limit, page_end
from headrace.api.http.problems import problems
from headrace.api.http.responses import json_response
from headrace.api.http.schemas import TransactionBody, TransactionPage
from headrace.api.http.strict_json import StrictRoute
from headrace.errors import TransactionNotFound
from headrace.model.transaction import Transaction
from headrace.store import transactions

router = APIRouter(prefix="/transactions", tags=["transactions"], route_class=StrictRoute)

_MOST_LEFT = 1000


@router.get("", response_model=TransactionPage)
def list_transactions(
    request: Request, left: bool = False, before: Before = None, limit: Limit = 100
) -> Response:
    """Transactions, newest first; with `left`, those that nobody drives any more, oldest first."""
    with node_of(request).database.read() as tx:
        if left:
            abandoned = transactions.orphaned(tx, limit=_MOST_LEFT)
            mine = [one for one in abandoned if transactions.is_owned(tx, OWNER, one.id)]
            return json_response(
                TransactionPage(items=[_body(one, mine) for one in mine], next=None)
            )
        found = transactions.page(tx, owner=OWNER, before=before, limit=limit + 1)
        items, following = page_end(found, limit)
        abandoned = transactions.orphaned(tx, limit=limit, among=[one.id for one in items])
    return json_response(
        TransactionPage(items=[_body(one, abandoned) for one in items], next=following)
    )


@router.get("/{transaction}", response_model=TransactionBody, responses=problems(404))
def show_transaction(request: Request, transaction: str) -> Response:
    """One transaction."""
    with node_of(request).database.read() as tx:
        found = transactions.get(tx, transaction)
        if found is None or not transactions.is_owned(tx, OWNER, transaction):
            raise TransactionNotFound(f"There is no transaction {transaction!r}.")
        return json_response(_body(found, transactions.orphaned(tx, limit=1, among=[found.id])))


def _body(found: Transaction, left: list[Transaction]) -> TransactionBody:
    assert found.created_at is not None
    return TransactionBody(
        id=found.id,
        statement_id=found.statement_id,
        session_id=found.session_id,
        state=found.state,
        catalog=found.staged.catalog,
        target=found.staged.target,
        left=any(one.id == found.id for one in left),
        created_at=found.created_at,
        ended_at=found.ended_at,
    )
