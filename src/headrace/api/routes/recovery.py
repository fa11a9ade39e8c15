"""`/recovery`: what lost drivers have left in catalogs and in the sinks of streams."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.api.auth import Authenticated
from headrace.api.context import node_of
from headrace.api.http.api_route import ApiRoute
from headrace.api.http.responses import json_response
from headrace.api.http.serializers import pending_sink_body, transaction_body
from headrace.api.http.transaction_schemas import RecoveryBody
from headrace.control.transactions import PendingRecovery

router = APIRouter(prefix="/recovery", tags=["transactions"], route_class=ApiRoute)


@router.get("", response_model=RecoveryBody)
def show_recovery(request: Request, caller: Authenticated) -> Response:
    """Show what drivers have to complete or to remove for lost drivers."""
    return _respond(node_of(request).transactions.list_pending(caller))


@router.post("", response_model=RecoveryBody)
def retry_recovery(request: Request, caller: Authenticated) -> Response:
    """Let the next drivers attempt it now, without the pause after a failed attempt.

    The answer is that of GET.
    """
    return _respond(node_of(request).transactions.retry_now(caller))


def _respond(pending: PendingRecovery) -> Response:
    transactions = [transaction_body(each) for each in pending.transactions]
    sinks = [pending_sink_body(each) for each in pending.sinks]
    return json_response(RecoveryBody(transactions=transactions, sinks=sinks))
