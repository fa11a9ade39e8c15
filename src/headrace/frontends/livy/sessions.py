"""`/livy`: the wire format of Apache Livy's REST API, for SQL.

docs/connect/livy.md describes it. Source of the format: apache/incubator-livy,
InteractiveSessionServlet.scala and SessionServlet.scala.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from headrace import __version__
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import AlreadyEnded, HeadraceError, InvalidResult, TooManyRows
from headrace.frontends.http.api_route import json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.http.errors import RequestError
from headrace.frontends.http.strict_json import StrictRoute
from headrace.frontends.livy.schemas import (
    KIND,
    LivyAppInfo,
    LivyError,
    LivyLog,
    LivyMessage,
    LivySession,
    LivySessionList,
    LivySessionRequest,
    LivyState,
    LivyStatement,
    LivyStatementList,
    LivyStatementRequest,
    LivyVersion,
    check_kind,
)
from headrace.grammar.masking import mask_text
from headrace.model.failure import Failure
from headrace.model.identity import GROUP_PREFIX
from headrace.model.lifecycle import SESSION, STATEMENT, SessionState, StatementState
from headrace.model.session import Session, SessionKind
from headrace.model.statement import Statement, StatementSpec
from headrace.results.formats.json import write_rows
from headrace.results.json_encoding import NumberFormat

PREFIX = "/livy"
SERVED_VERSION = "0.9.0"
"""Version of Livy whose API a node serves. pylivy compares texts: 0.10 is below 0.5."""

_LOG_BYTES = 1024 * 1024
_MAX_SESSIONS = 1000
_MAX_INT32 = 2**31 - 1


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of these error responses for OpenAPI."""
    return {
        status: {"model": LivyError, "description": HTTPStatus(status).phrase}
        for status in statuses
    }


def render_livy_error(error: RequestError) -> Response:
    """Return the response for an error."""
    text = error.detail if error.hint is None else f"{error.detail} {error.hint}"
    return JSONResponse({"msg": text}, error.status, error.headers)


SessionRef = Annotated[str, Path(description="number of the session, or its name while it is live")]
Ordinal = Annotated[int, Path(ge=0, le=_MAX_INT32, description="position within the session")]
Size = Annotated[int, Query(ge=0, le=100, description="largest number of items")]
From = Annotated[
    int, Query(alias="from", ge=0, le=_MAX_INT32, description="position of the first item")
]
FirstLine = Annotated[
    int,
    Query(
        alias="from",
        ge=-1,
        le=_MAX_INT32,
        description="position of the first line; -1: the last lines",
    ),
]

router = APIRouter(prefix=PREFIX, tags=["livy"], route_class=StrictRoute)


@router.get("/version", response_model=LivyVersion)
async def show_livy_version(_request: Request, _caller: Authenticated) -> Response:
    """Show the version of Livy whose API the node serves."""
    return json_response(
        LivyVersion(
            url="",
            branch=__version__,
            revision=__version__,
            version=SERVED_VERSION,
            date="",
            user="headrace",
        )
    )


@router.post(
    "/sessions", status_code=201, response_model=LivySession, responses=errors(404, 409, 415, 429)
)
def open_livy_session(
    request: Request, caller: Authenticated, body: LivySessionRequest
) -> Response:
    """Open a session. A node then starts its driver."""
    check_kind(body.kind)
    session = node_of(request).sessions.open(
        caller, body.spec, owner=body.proxy_user, name=body.name, fields=body.fields
    )
    headers = {"Location": f"{PREFIX}/sessions/{session.number}"}
    return json_response(_describe_session(session), 201, headers)


@router.get("/sessions", response_model=LivySessionList)
def list_livy_sessions(
    request: Request, caller: Authenticated, from_: From = 0, size: Size = 100
) -> Response:
    """List the live sessions of the caller, oldest first, at most the newest 1000."""
    page = node_of(request).sessions.page(
        caller, states=SESSION.live, before=None, id_prefix=None, limit=_MAX_SESSIONS
    )
    listed = [each for each in reversed(page) if _is_shown(each)]
    shown = [_describe_session(each) for each in listed[from_ : from_ + size]]
    return json_response(LivySessionList(from_=from_, total=len(listed), sessions=shown))


@router.get("/sessions/{livy_session}", response_model=LivySession, responses=errors(404, 409))
def show_livy_session(
    request: Request, caller: Authenticated, livy_session: SessionRef
) -> Response:
    """Show a session."""
    return json_response(_describe_session(node_of(request).sessions.get(caller, livy_session)))


@router.delete("/sessions/{livy_session}", response_model=LivyMessage, responses=errors(404, 409))
def close_livy_session(
    request: Request, caller: Authenticated, livy_session: SessionRef
) -> Response:
    """Close a session, also one that has ended: its statements are cancelled."""
    node_of(request).sessions.close(caller, livy_session)
    return json_response(LivyMessage(msg="deleted"))


@router.get("/sessions/{livy_session}/state", response_model=LivyState, responses=errors(404, 409))
def show_livy_session_state(
    request: Request, caller: Authenticated, livy_session: SessionRef
) -> Response:
    """Show the state of a session."""
    session = node_of(request).sessions.get(caller, livy_session)
    return json_response(LivyState(id=session.number, state=_session_state(session)))


@router.get("/sessions/{livy_session}/log", response_model=LivyLog, responses=errors(404, 409))
async def read_livy_session_log(
    request: Request,
    caller: Authenticated,
    livy_session: SessionRef,
    from_: FirstLine = -1,
    size: Size = 100,
) -> Response:
    """Read lines of the end of the driver's log: its last MiB."""
    node = node_of(request)
    session = await run_in_threadpool(node.sessions.get, caller, livy_session)
    lines = await read_log_lines(node, caller, session)
    return json_response(cut_log(session, lines, from_, size))


@router.post(
    "/sessions/{livy_session}/statements",
    status_code=201,
    response_model=LivyStatement,
    responses=errors(404, 409, 415, 429),
)
def run_livy_statement(
    request: Request, caller: Authenticated, livy_session: SessionRef, body: LivyStatementRequest
) -> Response:
    """Submit a statement to a session of the caller."""
    check_kind(body.kind)
    node = node_of(request)
    session = node.sessions.get(caller, livy_session)
    statement = node.statements.submit(caller, StatementSpec(text=body.code), session=session.id)
    location = f"{PREFIX}/sessions/{session.number}/statements/{statement.ordinal}"
    # The output of a statement that has ended already is that of the next poll.
    content = _write_statement(statement, output=None)
    return _json(content, HTTPStatus.CREATED, {"Location": location})


@router.get(
    "/sessions/{livy_session}/statements",
    response_model=LivyStatementList,
    responses=errors(404, 409),
)
async def list_livy_statements(
    request: Request,
    caller: Authenticated,
    livy_session: SessionRef,
    from_: From = 0,
    size: Size = 100,
    order: Annotated[
        Literal["asc", "desc"] | None, Query(description="`desc`: the newest statement is first")
    ] = None,
) -> Response:
    """List statements of a session with their outputs."""
    node = node_of(request)
    total, page = await run_in_threadpool(
        node.statements.slice_of_session,
        caller,
        livy_session,
        offset=from_,
        limit=size,
        newest_first=order == "desc",
    )
    items = [await _write_with_output(node, caller, each) for each in page]
    head = f'{{"total_statements":{total},"statements":['.encode()
    return _json(head + b",".join(items) + b"]}")


@router.get(
    "/sessions/{livy_session}/statements/{ordinal}",
    response_model=LivyStatement,
    responses=errors(404, 409),
)
async def show_livy_statement(
    request: Request, caller: Authenticated, livy_session: SessionRef, ordinal: Ordinal
) -> Response:
    """Show a statement, with all its rows once it has succeeded."""
    node = node_of(request)
    find = node.statements.get_in_session
    statement = await run_in_threadpool(find, caller, livy_session, ordinal)
    return _json(await _write_with_output(node, caller, statement))


@router.post(
    "/sessions/{livy_session}/statements/{ordinal}/cancel",
    response_model=LivyMessage,
    responses=errors(404, 409),
)
def cancel_livy_statement(
    request: Request, caller: Authenticated, livy_session: SessionRef, ordinal: Ordinal
) -> Response:
    """Request a cancel. A statement that has ended stays as it is."""
    statements = node_of(request).statements
    statement = statements.get_in_session(caller, livy_session, ordinal)
    with suppress(AlreadyEnded):
        statements.cancel(caller, statement.id)
    return json_response(LivyMessage(msg="canceled"))


async def read_log_lines(node: Node, caller: Caller, session: Session) -> list[str]:
    """Return the lines of the last MiB of a driver's log. Raises as `SessionLogs.read`."""
    end = await node.session_logs.read_async(caller, session.id, _LOG_BYTES)
    return end.text.splitlines()


def cut_log(session: Session, lines: list[str], from_: int, size: int) -> LivyLog:
    """Return a range of the lines of a log. Behind its end there are none, with the same total."""
    first = max(0, len(lines) - size) if from_ < 0 else from_
    shown = lines[first : first + size]
    return LivyLog(id=session.number, from_=first, total=len(lines), log=shown)


def _json(content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(content, status, headers, media_type="application/json")


def _is_shown(session: Session) -> bool:
    """Return whether a list has a session: one that its owner has opened, and not a pool."""
    return session.kind is SessionKind.INTERACTIVE and not session.pool and not session.warm


_SESSION_STATES: dict[str, str] = {
    SessionState.NOT_STARTED: "starting",
    SessionState.STARTING: "starting",
    SessionState.RECOVERING: "recovering",
    SessionState.CLOSING: "shutting_down",
    SessionState.DEAD: "dead",
    SessionState.FAILED: "error",
}
"""States of sessions in Livy. `running` is `idle` or `busy`."""


def _session_state(session: Session) -> str:
    if session.state is SessionState.RUNNING:
        return "busy" if session.active else "idle"
    return _SESSION_STATES[session.state]


def _describe_session(session: Session) -> LivySession:
    return LivySession(**describe_driver(session), state=_session_state(session), kind=KIND)


def describe_driver(session: Session) -> dict[str, Any]:
    """Return the fields that sessions and batches share."""
    driver = session.driver or {}
    is_up = session.state is SessionState.RUNNING
    return {
        "id": session.number,
        "name": session.name,
        "app_id": driver.get("application_id"),
        "owner": session.owner,
        "proxy_user": session.owner if session.owner.startswith(GROUP_PREFIX) else None,
        "app_info": LivyAppInfo(spark_ui_url=driver.get("ui_url") if is_up else None),
    }


_STATEMENT_STATES: dict[str, str] = {
    StatementState.WAITING: "waiting",
    StatementState.LAUNCHED: "waiting",
    StatementState.RUNNING: "running",
    StatementState.CANCELLING: "cancelling",
    StatementState.CANCELLED: "cancelled",
}
"""States of statements in Livy. Every other one is `available`: there is an output."""


async def _write_with_output(node: Node, caller: Caller, statement: Statement) -> bytes:
    """Return a statement as JSON. An error of its rows is its output, unless a retry can help."""
    if statement.state is not StatementState.SUCCESS:
        return _write_statement(statement, output=_failure_output(statement))
    reads = node.async_statements.select_reads(statement)
    try:
        output = await reads.run(_read_output, node, caller, statement)
    except HeadraceError as error:
        is_temporary = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if is_temporary and not isinstance(error, InvalidResult):
            raise
        output = _error_output(statement, Failure.with_hint(error))
    return _write_statement(statement, output=output)


def _read_output(node: Node, caller: Caller, statement: Statement) -> bytes:
    rows = node.statements.open_result(caller, statement)
    limit = node.settings.livy.row_limit
    if rows.row_count > limit:
        raise TooManyRows(
            f"The result has {rows.row_count} rows, and an output of Livy holds at most {limit} "
            f"(setting livy.row_limit). Read all rows from "
            f"/api/v1/statements/{statement.id}/result."
        )
    schema = json.dumps(rows.schema.spark, separators=(",", ":")).encode()
    data = b"".join(write_rows(rows, None, numbers=NumberFormat.ALWAYS))
    head = f'{{"status":"ok","execution_count":{statement.ordinal},"data":{{"application/json":'
    return head.encode() + b'{"schema":' + schema + b',"data":' + data + b"}}}"


def _failure_output(statement: Statement) -> bytes | None:
    is_available = statement.state not in _STATEMENT_STATES
    if not is_available:
        return None
    failure = statement.failure or Failure(code=statement.state, message="The statement ended.")
    return _error_output(statement, failure)


def _error_output(statement: Statement, failure: Failure) -> bytes:
    condition = failure.condition or failure.code
    text = failure.model_copy(update={"condition": condition}).describe()
    output = {
        "status": "error",
        "execution_count": statement.ordinal,
        "ename": failure.code,
        "evalue": mask_text(text),
        "traceback": mask_text(failure.trace or "").splitlines(),
    }
    return json.dumps(output).encode()


def _write_statement(statement: Statement, *, output: bytes | None) -> bytes:
    fields = {
        "id": statement.ordinal,
        "code": mask_text(statement.spec.text),
        "state": _STATEMENT_STATES.get(statement.state, "available"),
        "progress": _progress(statement),
        "started": _milliseconds(statement.started_at),
        "completed": _milliseconds(statement.ended_at),
    }
    return json.dumps(fields)[:-1].encode() + b', "output":' + (output or b"null") + b"}"


def _progress(statement: Statement) -> float:
    if statement.state in STATEMENT.terminal:
        return 1.0
    progress = statement.progress
    if progress is None or not progress.tasks_total:
        return 0.0
    return min(1.0, progress.tasks_done / progress.tasks_total)


def _milliseconds(instant: datetime | None) -> int:
    return 0 if instant is None else round(instant.timestamp() * 1000)
