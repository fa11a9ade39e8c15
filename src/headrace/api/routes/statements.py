"""`/statements`: submit, list, look, cancel, read the result."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.api.auth import OWNER
from headrace.api.context import node_of, waiters_of
from headrace.api.http.paging import Before, Limit, page_end
from headrace.api.http.problems import problems
from headrace.api.http.responses import json_response
from headrace.api.http.result_responses import (
    ResultFormat,
    result_response,
    statement_url,
    submit_response,
)
from headrace.api.http.schemas import (
    LONGEST_WAIT,
    RowsBody,
    StatementBody,
    StatementPage,
    StatementRequest,
)
from headrace.api.http.serializers import statement_body
from headrace.api.http.strict_json import StrictRoute
from headrace.control.node import Node
from headrace.control.statements import cancel as cancelling
from headrace.control.statements.lookup import find
from headrace.control.statements.submission import Submit
from headrace.durations import Duration
from headrace.errors import AlreadyEnded, InvalidRequest
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.session import SessionKind
from headrace.model.statement import Statement
from headrace.results.json_encoding import NumberFormat
from headrace.store import statements
from headrace.store.notifications import statement_topic

router = APIRouter(prefix="/statements", tags=["statements"], route_class=StrictRoute)

_CANCEL_SECONDS = 30.0
AskedNumbers = Annotated[
    NumberFormat,
    Query(
        description="bigint and decimal in JSON: `text` has them as strings, `plain` as numbers "
        "where a double holds them exactly, `always` as numbers"
    ),
]


@router.post(
    "",
    status_code=201,
    response_model=StatementBody,
    responses=problems(404, 409, 413, 415),
)
async def submit(
    request: Request,
    body: StatementRequest,
    numbers: AskedNumbers = NumberFormat.TEXT,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Response:
    """Submits one statement.

    With `wait_timeout`, answers when it has ended or the time is over, with its rows when it has
    succeeded and they are few. With `Idempotency-Key`, a repeated submit gets the first one's
    answer.
    """
    seconds = _seconds(body.wait_timeout)
    asked = Submit(
        text=body.statement,
        owner=OWNER,
        session=body.session,
        parameters=body.parameters,
        conf=body.conf,
        disposition=body.result,
        row_limit=body.row_limit,
        byte_limit=body.byte_limit,
        location=body.location,
        kind=SessionKind(body.kind),
        timeout=body.timeout,
        queue_timeout=body.queue_timeout,
        idempotency_key=idempotency_key,
        body_hash=_hash(body),
    )
    if seconds > 0:
        cancels = body.on_wait_timeout == "cancel"
        return await _submit_and_wait(request, asked, seconds, cancels=cancels, numbers=numbers)
    statement = await run_in_threadpool(node_of(request).submissions.submit, asked)
    return json_response(statement_body(statement), 201, {"Location": statement_url(statement)})


@router.get("", response_model=StatementPage, responses=problems(404))
def list_statements(
    request: Request,
    state: Annotated[list[StatementState] | None, Query()] = None,
    session: str | None = None,
    before: Before = None,
    limit: Limit = 100,
) -> Response:
    """Statements, newest first."""
    node = node_of(request)
    session_id = node.sessions.get(OWNER, session).id if session is not None else None
    with node.database.read() as tx:
        found = statements.page(
            tx, owner=OWNER, session=session_id, states=state, before=before, limit=limit + 1
        )
    items, following = page_end(found, limit)
    return json_response(
        StatementPage(items=[statement_body(one) for one in items], next=following)
    )


@router.get("/{statement_id}", response_model=StatementBody, responses=problems(404))
async def show_statement(
    request: Request,
    statement_id: str,
    wait_timeout: Duration | None = None,
    trace: bool = False,
) -> Response:
    """One statement; with `wait_timeout`, as soon as it has ended or the time is over."""
    node = node_of(request)
    seconds = _seconds(wait_timeout)
    statement = await run_in_threadpool(_find, node, statement_id)
    if seconds > 0:
        statement = await _await_end(request, statement, seconds)
    return json_response(statement_body(statement, trace=trace))


@router.post(
    "/{statement_id}/cancel",
    status_code=202,
    response_model=StatementBody,
    responses=problems(404, 409),
)
def cancel_statement(
    request: Request,
    statement_id: str,
    force: Annotated[
        bool, Query(description="end its driver if need be, even when other work runs there")
    ] = False,
) -> Response:
    """Asks for a cancel. What was published before it arrived is a success, and stays one. A driver
    that does not stop it within the grace period is ended, unless other work runs there."""
    database = node_of(request).database
    return json_response(
        statement_body(cancelling.cancel(database, OWNER, statement_id, force=force)), 202
    )


@router.get(
    "/{statement_id}/result",
    response_model=RowsBody,
    responses={
        200: {
            "content": {
                "application/vnd.apache.arrow.stream": {},
                "text/csv": {},
                "application/vnd.apache.parquet": {},
            },
            "description": "The rows: one chunk as JSON; one chunk or all of them otherwise.",
        },
        **problems(404, 406, 409, 410),
    },
)
def statement_result(
    request: Request,
    statement_id: str,
    format: Annotated[ResultFormat | None, Query()] = None,  # noqa: A002 - the parameter's public name
    chunk: Annotated[int | None, Query(ge=0, le=2**31)] = None,
    numbers: AskedNumbers = NumberFormat.TEXT,
) -> Response:
    """The rows of a successful statement, in the form that `format` or `Accept` names."""
    node = node_of(request)
    return result_response(
        node,
        _find(node, statement_id),
        wanted=format,
        accept=request.headers.get("accept", ""),
        chunk=chunk,
        numbers=numbers,
    )


def _hash(body: StatementRequest) -> str:
    """Tells requests apart by what they ask to be run, not by how long they wait for it."""
    asked = body.model_dump_json(exclude={"wait_timeout", "on_wait_timeout"})
    return hashlib.sha256(asked.encode()).hexdigest()


def _find(node: Node, statement_id: str) -> Statement:
    with node.database.read() as tx:
        return find(tx, OWNER, statement_id)


async def _submit_and_wait(
    request: Request, asked: Submit, seconds: float, *, cancels: bool, numbers: NumberFormat
) -> Response:
    node, waiters = node_of(request), waiters_of(request)

    def ended(statement_id: str) -> Response | None:
        """In one turn of a thread, which costs about as much as what is done in it."""
        statement = _find(node, statement_id)
        if statement.state in STATEMENT.live:
            return None
        return submit_response(node, statement, numbers=numbers)

    # From before the submit, so that nobody has to look between it and the end.
    with waiters.interest(statement_topic(asked.statement_id)) as interest:
        statement = await run_in_threadpool(node.submissions.submit, asked)
        look = partial(run_in_threadpool, ended, statement.id)
        if statement.id == asked.statement_id:
            response = await interest.until(look, seconds=seconds)
        else:
            topic = statement_topic(statement.id)
            response = await waiters.until(topic, look, seconds=seconds)
    if response is not None:
        return response
    if cancels:
        statement = await _cancelled(request, statement)
    else:
        statement = await run_in_threadpool(_find, node, statement.id)
    return await run_in_threadpool(submit_response, node, statement, numbers=numbers)


async def _await_end(request: Request, statement: Statement, seconds: float) -> Statement:
    """The statement once it has ended, or as it is when the time is over."""
    node = node_of(request)
    latest = statement
    if latest.state in STATEMENT.terminal:
        return latest

    async def look() -> Statement | None:
        nonlocal latest
        latest = await run_in_threadpool(_find, node, statement.id)
        return latest if latest.state in STATEMENT.terminal else None

    await waiters_of(request).until(statement_topic(statement.id), look, seconds=seconds)
    return latest


async def _cancelled(request: Request, statement: Statement) -> Statement:
    node = node_of(request)
    try:
        await run_in_threadpool(cancelling.cancel, node.database, OWNER, statement.id)
    except AlreadyEnded:
        return await run_in_threadpool(_find, node, statement.id)
    return await _await_end(request, statement, _CANCEL_SECONDS)


def _seconds(wait: timedelta | None) -> float:
    if wait is None:
        return 0.0
    if wait > LONGEST_WAIT:
        raise InvalidRequest(
            f"wait_timeout: {wait.total_seconds():g}s is longer than "
            f"{LONGEST_WAIT.total_seconds():g}s."
        )
    return wait.total_seconds()
