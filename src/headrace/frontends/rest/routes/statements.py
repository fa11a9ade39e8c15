"""`/statements`: submit, list, show, cancel, read the result."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.policy import Caller
from headrace.control.statements.service import RepeatableRequest
from headrace.control.statements.wait_reasons import can_wait
from headrace.frontends.http.allowed_hosts import is_loopback
from headrace.frontends.http.api_route import (
    AllOwners,
    ApiRoute,
    Before,
    IdPrefix,
    Limit,
    Numbers,
    StatementIdPath,
    json_response,
    wait_seconds,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.result_responses import (
    SUBMIT_ROWS_BYTES,
    statement_url,
    submit_response,
)
from headrace.frontends.rest.schemas import (
    ExecutionBody,
    FlightBody,
    StatementBody,
    StatementPage,
    StatementRequest,
    WaitTimeout,
    read_fields,
)
from headrace.frontends.rest.serializers import execution_body, statement_body
from headrace.model.lifecycle import StatementState
from headrace.model.request_fields import SubmitFields
from headrace.model.session import SessionKind
from headrace.model.statement import Statement, StatementSpec, StatementView
from headrace.results.json_encoding import NumberFormat
from headrace.text.durations import Duration

router = APIRouter(prefix="/statements", tags=["statements"], route_class=ApiRoute)


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
    node, spec, seconds = node_of(request), _spec(body), wait_seconds(body.wait_timeout)
    repeatable = _repeatable(body, idempotency_key)
    if seconds <= 0:
        submit = partial(
            node.statements.submit,
            caller,
            spec,
            owner=body.owner,
            session=body.session,
            connection=body.connection,
            repeatable=repeatable,
        )
        statement = await run_in_threadpool(submit)
        return json_response(statement_body(statement), 201, {"Location": statement_url(statement)})
    return await node.async_statements.submit_and_wait(
        caller,
        spec,
        partial(submit_response, node.statements, caller, numbers=numbers),
        seconds=seconds,
        rows_bytes=SUBMIT_ROWS_BYTES,
        cancels=body.on_wait_timeout == "cancel",
        owner=body.owner,
        session=body.session,
        connection=body.connection,
        repeatable=repeatable,
    )


@router.get("", response_model=StatementPage, responses=problems(404, 406, 409, 502))
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
    all_owners: AllOwners = False,
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
        all_owners=all_owners,
        view=view,
        over=over,
    )
    names = statements.find_session_names(caller, page.items)
    reasons = {}
    if view in {StatementView.WAITING, StatementView.RUNNING}:
        reasons = statements.find_wait_reasons(caller, page.items)
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
    statement = await node_of(request).async_statements.wait(caller, statement_id, seconds)
    position, reason = None, None
    if can_wait(statement):
        find_reasons = node_of(request).statements.find_wait_reasons
        reasons = await run_in_threadpool(find_reasons, caller, [statement])
        position, reason = reasons.get(statement.id, (None, None))
    body = statement_body(statement, trace=trace, queue_position=position, waiting_for=reason)
    if statement.result is not None and statement.result.holder is not None:
        body = await run_in_threadpool(_add_flight_offer, request, caller, statement, body)
    return json_response(body)


@router.get(
    "/{statement_id}/execution", response_model=ExecutionBody, responses=problems(404, 406, 502)
)
def show_execution(
    request: Request, caller: Authenticated, statement_id: StatementIdPath
) -> Response:
    """Show the physical plan of a statement that has ended, and its Spark stages.

    The driver reports them soon after the end. 404 with the code `execution_not_found`: the
    statement has not ended, it has started no Spark job, or its driver was lost.
    """
    execution = node_of(request).statements.get_execution(caller, statement_id)
    return json_response(execution_body(execution))


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


def _add_flight_offer(
    request: Request, caller: Caller, statement: Statement, body: StatementBody
) -> StatementBody:
    """Return the body with the place at which the caller reads a held result directly."""
    # A proxy on the host of the node names its clients, which may be elsewhere, in a header.
    is_forwarded = any(name in request.headers for name in _PROXY_HEADERS)
    is_local = not is_forwarded and request.client is not None and is_loopback(request.client.host)
    offer = node_of(request).statements.find_flight_offer(caller, statement, is_local=is_local)
    if offer is None or body.result is None:
        return body
    flight = FlightBody(location=offer.location, ticket=offer.ticket, token=offer.token)
    return body.model_copy(update={"result": body.result.model_copy(update={"flight": flight})})


def _spec(body: StatementRequest) -> StatementSpec:
    return StatementSpec(
        text=body.statement,
        kind=SessionKind(body.kind),
        parameters=[*body.parameters],
        conf=body.conf,
        result_request=body.result_request,
        **asdict(read_fields(body, SubmitFields)),
    )


def _repeatable(body: StatementRequest, key: str | None) -> RepeatableRequest | None:
    """Return the key with a hash of the request. The hash ignores how long the request waits."""
    if key is None:
        return None
    content = body.model_dump_json(exclude={"wait_timeout", "on_wait_timeout"})
    return RepeatableRequest(key, hashlib.sha256(content.encode()).hexdigest())
