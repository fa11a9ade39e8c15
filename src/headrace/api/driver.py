"""The link's other end: what drivers call."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from headrace.api.auth import bearer
from headrace.api.context import node_of, waiters_of
from headrace.control.link import Link
from headrace.model.messages import (
    LINK_PREFIX,
    Acknowledged,
    Ended,
    Goodbye,
    Hello,
    Orders,
    Poll,
    Renew,
    Renewed,
    Started,
)
from headrace.store.signals import session_topic

router = APIRouter(prefix=f"{LINK_PREFIX}/{{session_id}}/{{epoch}}", include_in_schema=False)


def _link(request: Request, session_id: str, epoch: int) -> Link:
    link = node_of(request).link
    link.authenticate(session_id, epoch, bearer(request))
    return link


@router.post("/hello")
def hello(request: Request, session_id: str, epoch: int, message: Hello) -> Acknowledged:
    return _link(request, session_id, epoch).hello(session_id, epoch, message)


@router.post("/poll")
async def poll(request: Request, session_id: str, epoch: int, message: Poll) -> Orders:
    link = await run_in_threadpool(_link, request, session_id, epoch)

    async def look() -> Orders | None:
        orders = await run_in_threadpool(link.poll, session_id, epoch, message)
        return None if orders == Orders() else orders

    found = await waiters_of(request).until(
        session_topic(session_id), look, seconds=message.wait_seconds
    )
    return found or Orders()


@router.post("/renew")
def renew(request: Request, session_id: str, epoch: int, _message: Renew) -> Renewed:
    return _link(request, session_id, epoch).renew(session_id, epoch)


@router.post("/started")
def started(request: Request, session_id: str, epoch: int, message: Started) -> Acknowledged:
    return _link(request, session_id, epoch).started(session_id, epoch, message.statement_id)


@router.post("/ended")
def ended(request: Request, session_id: str, epoch: int, message: Ended) -> Acknowledged:
    return _link(request, session_id, epoch).ended(session_id, epoch, message)


@router.post("/goodbye")
def goodbye(request: Request, session_id: str, epoch: int, message: Goodbye) -> Acknowledged:
    return _link(request, session_id, epoch).goodbye(session_id, epoch, message.failure)
