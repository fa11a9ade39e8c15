"""`/statements`: submit, list, show, cancel, read the result."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.caller import Caller
from headrace.control.statements.lookup import check_owner
from headrace.control.statements.service import RepeatableRequest
from headrace.control.statements.waiting import can_wait
from headrace.errors import AlreadyEnded, HeadraceError
from headrace.frontends.http.allowed_hosts import is_loopback
from headrace.frontends.http.api_route import (
    ApiRoute,
    Before,
    IdPrefix,
    Limit,
    Numbers,
    StatementIdPath,
    json_response,
    wait_seconds,
)
from headrace.frontends.http.auth import Authenticated
from headrace.frontends.http.context import long_polls_of, node_of
from headrace.frontends.http.long_polls import LongPoll, Rereads
from headrace.frontends.rest.batched_reads import statement_reads_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.result_responses import (
    SUBMIT_ROWS_BYTES,
    statement_url,
    submit_response,
)
from headrace.frontends.rest.schemas import (
    FlightBody,
    StatementBody,
    StatementPage,
    StatementRequest,
    WaitTimeout,
)
from headrace.frontends.rest.serializers import statement_body
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import Statement, StatementSpec, StatementView
from headrace.model.text import looks_like_id, new_id
from headrace.results.json_encoding import NumberFormat
from headrace.text.durations import Duration, seconds_of

router = APIRouter(prefix="/statements", tags=["statements"], route_class=ApiRoute)

_CANCEL_SECONDS = 30.0
"""Longest time that a response with `on_wait_timeout: cancel` waits for the end."""


@router.post(
    "",
    status_code=201,
    response_model=StatementBody,
    responses=problems(404, 406, 409, 415, 429, 502),
)
async def submit_statement(
    request: Request,
    caller: Authenticated,
    body: StatementRequest,
    numbers: Numbers = NumberFormat.TEXT,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="key of the client: a second submit with it returns the first statement",
        ),
    ] = None,
) -> Response:
    """Submit one statement.

    With `wait_timeout`, the response waits for the end of the statement and then holds the rows of
    a small result. With `Idempotency-Key`, a repeated submit returns the first statement.
    """
    seconds = wait_seconds(body.wait_timeout)
    statement_id = new_id("st")
    statements = node_of(request).statements
    submit_statement = partial(
        statements.submit,
        caller,
        _spec(body),
        session=body.session,
        repeatable=_repeatable(body, idempotency_key),
        statement_id=statement_id,
        awaited=seconds > 0,
    )
    if seconds <= 0:
        statement = await run_in_threadpool(submit_statement)
        return json_response(statement_body(statement), 201, {"Location": statement_url(statement)})
    statement, response = await _submit_and_wait(
        request, caller, submit_statement, statement_id, seconds, numbers
    )
    if response is not None:
        return response
    if body.on_wait_timeout == "cancel":
        statement = await _cancel_and_wait(request, caller, statement.id)
    else:
        statement = await run_in_threadpool(statements.get, caller, statement.id)
    return await run_in_threadpool(submit_response, statements, statement, numbers=numbers)


@router.get("", response_model=StatementPage, responses=problems(404, 406, 502))
def list_statements(
    request: Request,
    caller: Authenticated,
    state: Annotated[
        list[StatementState] | None, Query(description="only statements in one of these states")
    ] = None,
    session: Annotated[
        str | None, Query(description="only statements of this session, by id or name")
    ] = None,
    view: Annotated[
        StatementView | None,
        Query(
            description="`waiting`: statements that wait for a driver, the longest wait first;"
            " `running`: statements that a driver has claimed, the longest run first; `slow`:"
            " statements that have ended and ran for long, the newest end first. An administrator"
            " sees the statements of all users. The items of `waiting` and `running` say what they"
            " wait for."
        ),
    ] = None,
    over: Annotated[
        Duration | None,
        Query(
            description="with `view`: only statements that have waited, or run, for at least this"
            " time; for `slow`: at least 1s; default: 1min"
        ),
    ] = None,
    before: Before = None,
    id_prefix: IdPrefix = None,
    limit: Limit = 100,
) -> Response:
    """List statements, newest first. A page with long texts has fewer items than `limit`.

    With `view`, list what runs, waits or was slow.
    """
    statements = node_of(request).statements
    page = statements.page(
        caller,
        session=session,
        states=state,
        before=before,
        id_prefix=id_prefix,
        limit=limit,
        view=view,
        over=over,
    )
    names = statements.find_session_names(page.items)
    reasons = {}
    if view in {StatementView.WAITING, StatementView.RUNNING}:
        reasons = statements.wait_reasons.find_all(list(filter(can_wait, page.items)))
    items = []
    for statement in page.items:
        position, reason = reasons.get(statement.id, (None, None))
        body = statement_body(
            statement,
            in_list=True,
            session_name=names.get(statement.session_id),
            queue_position=position,
            waiting_for=reason,
        )
        items.append(body)
    return json_response(StatementPage(items=items, next=page.items[-1].id if page.more else None))


@router.get("/{statement_id}", response_model=StatementBody, responses=problems(404, 406, 502))
async def show_statement(
    request: Request,
    caller: Authenticated,
    statement_id: StatementIdPath,
    wait_timeout: Annotated[
        WaitTimeout | None, Query(description="how long to wait for the end of the statement")
    ] = None,
    trace: Annotated[bool, Query(description="include the stack trace of an error")] = False,
) -> Response:
    """Show one statement; with `wait_timeout`, once it has ended or the time is over."""
    seconds = wait_seconds(wait_timeout)
    statement = await _read(request, caller, statement_id)
    if seconds > 0:
        statement = await _wait_for_end(request, caller, statement, seconds)
    position, reason = None, None
    if can_wait(statement):
        find_reason = node_of(request).statements.wait_reasons.find
        position, reason = await run_in_threadpool(find_reason, statement)
    body = statement_body(statement, trace=trace, queue_position=position, waiting_for=reason)
    if statement.result is not None and statement.result.holder is not None:
        body = await run_in_threadpool(_add_flight_offer, request, statement, body)
    return json_response(body)


@router.post(
    "/{statement_id}/cancel",
    status_code=202,
    response_model=StatementBody,
    responses=problems(404, 406, 409, 502),
)
def cancel_statement(
    request: Request,
    caller: Authenticated,
    statement_id: StatementIdPath,
    force: Annotated[
        bool, Query(description="kill the driver if necessary, even if other work runs in it")
    ] = False,
) -> Response:
    """Request a cancel.

    Work that was published before the cancel arrived stays a success. A driver that does not stop
    the statement within the grace period is killed, unless other work runs in it.
    """
    statement = node_of(request).statements.cancel(caller, statement_id, force=force)
    return json_response(statement_body(statement), 202)


_PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


def _add_flight_offer(request: Request, statement: Statement, body: StatementBody) -> StatementBody:
    """Return the body with the place at which the caller reads a held result directly."""
    # A proxy on the host of the node names its clients, which may be elsewhere, in a header.
    is_forwarded = any(name in request.headers for name in _PROXY_HEADERS)
    is_local = not is_forwarded and request.client is not None and is_loopback(request.client.host)
    offer = node_of(request).statements.find_flight_offer(statement, is_local=is_local)
    if offer is None or body.result is None:
        return body
    flight = FlightBody(location=offer.location, ticket=offer.ticket, token=offer.token)
    return body.model_copy(update={"result": body.result.model_copy(update={"flight": flight})})


async def _read(request: Request, caller: Caller, statement_id: str) -> Statement:
    """Return a statement of the caller. Raise StatementNotFound if there is none."""
    # Text without the form of an id may be such that PostgreSQL refuses it.
    exists = looks_like_id(statement_id)
    statement = await statement_reads_of(request).get(statement_id) if exists else None
    return check_owner(statement, caller.owner, statement_id)


def _spec(body: StatementRequest) -> StatementSpec:
    return StatementSpec(
        text=body.statement,
        kind=SessionKind(body.kind),
        parameters=[*body.parameters],
        conf=body.conf,
        timeout_seconds=seconds_of(body.timeout),
        queue_timeout_seconds=seconds_of(body.queue_timeout),
        result_request=body.result_request,
    )


def _repeatable(body: StatementRequest, key: str | None) -> RepeatableRequest | None:
    """Return the key with a hash of the request. The hash ignores how long the request waits."""
    if key is None:
        return None
    content = body.model_dump_json(exclude={"wait_timeout", "on_wait_timeout"})
    return RepeatableRequest(key, hashlib.sha256(content.encode()).hexdigest())


async def _submit_and_wait(
    request: Request,
    caller: Caller,
    submit_statement: Callable[[], Statement],
    statement_id: str,
    seconds: float,
    numbers: NumberFormat,
) -> tuple[Statement, Response | None]:
    """Submit and wait for the end; return the statement, and the response if it has ended."""
    node, long_polls = node_of(request), long_polls_of(request)
    statements, on_end = node.statements, node.wake_ups.on_statement_end
    prepared: list[Response] = []

    def respond_if_ended(statement_id: str) -> Response | None:
        # Read and respond in one thread call: a second call would cost as much as its work.
        statement, data = statements.get_with_rows(
            caller, statement_id, max_bytes=SUBMIT_ROWS_BYTES
        )
        if statement.state in STATEMENT.live:
            return None
        return submit_response(statements, statement, numbers=numbers, data=data)

    def prepare() -> None:
        # After an error, the wake-up for the end leads to another attempt.
        with contextlib.suppress(HeadraceError):
            response = respond_if_ended(statement_id)
            if response is not None:
                prepared.append(response)

    # Subscribe before the submit, so that an end between the two is not missed.
    with (
        node.awaited_ends.register(statement_id, prepare),
        long_polls.subscribed(partial(on_end, statement_id)) as poll,
    ):

        async def check() -> Response | None:
            if not prepared and await _may_have_ended(request, poll, statement_id):
                return await run_in_threadpool(respond_if_ended, statement_id)
            return prepared[0] if prepared else None

        statement = await run_in_threadpool(submit_statement)
        if statement.id == statement_id:
            return statement, await poll.wait(check, seconds=seconds, rereads=Rereads.RARE)
    # The key was used before: wait for the first statement instead.
    statement = await _wait_for_end(request, caller, statement, seconds)
    return statement, await run_in_threadpool(respond_if_ended, statement.id)


async def _may_have_ended(request: Request, poll: LongPoll, statement_id: str) -> bool:
    """Return whether a request must read a statement with its rows. Requests share this read."""
    if poll.was_woken:
        return True
    statement = await statement_reads_of(request).get(statement_id)
    return statement is None or statement.state in STATEMENT.terminal


async def _wait_for_end(
    request: Request, caller: Caller, statement: Statement, seconds: float
) -> Statement:
    """Wait until a statement has ended, at most `seconds`; return its latest state."""
    if statement.state in STATEMENT.terminal:
        return statement
    latest = statement

    async def check() -> Statement | None:
        nonlocal latest
        latest = await _read(request, caller, statement.id)
        return latest if latest.state in STATEMENT.terminal else None

    await run_in_threadpool(node_of(request).statements.await_end, statement)
    subscribe = partial(node_of(request).wake_ups.on_statement_end, statement.id)
    await long_polls_of(request).wait(subscribe, check, seconds=seconds, rereads=Rereads.RARE)
    return latest


async def _cancel_and_wait(request: Request, caller: Caller, statement_id: str) -> Statement:
    statements = node_of(request).statements
    try:
        statement = await run_in_threadpool(statements.cancel, caller, statement_id)
    except AlreadyEnded:
        return await run_in_threadpool(statements.get, caller, statement_id)
    return await _wait_for_end(request, caller, statement, _CANCEL_SECONDS)
