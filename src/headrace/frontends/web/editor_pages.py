"""The editor: a page that submits SQL and shows the statements that it has submitted.

The statements of one editor run in one connection, so that `USE`, `SET` and temporary views hold
for those after them. The page runs the statements of a script one after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.control.statements.service import RepeatableRequest
from headrace.errors import (
    ConnectionNotFound,
    DraftNotFound,
    HeadraceError,
    InvalidRequest,
    StatementNotFound,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import make_router, redirect, render
from headrace.frontends.web.statement_pages import show_begin
from headrace.grammar.masking import mask_sql
from headrace.grammar.script import split_script
from headrace.grammar.unrestricted import find_unrestricted
from headrace.model.connection import ConnectionSpec
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import Statement, StatementSpec

PROTOCOL = "web"
DRAFT_PATTERN = r"^dr_[0-9a-f]{32}$"
MAX_FORM_BYTES = 4 * 1024 * 1024
"""Largest form: the SQL of one statement, in the escapes of forms."""
_MAX_KEY = 100
_RUNS = 20
"""Statements that an editor shows."""

DraftQuery = Annotated[str | None, Query(pattern=DRAFT_PATTERN)]

router = make_router()


@dataclass(frozen=True, slots=True)
class EditorRun:
    """A statement that the editor shows."""

    statement: Statement
    text: str
    """The begin of its SQL, in one line."""


@router.get("/editor")
def lead_to_editor(request: Request, caller: Authenticated) -> Response:  # noqa: ARG001 - signs in
    """Lead to the editor. Its links fit those of the page of a statement, which it shows."""
    return redirect("editor/sql" + (f"?{request.url.query}" if request.url.query else ""))


@router.get("/editor/sql")
def render_editor(
    request: Request,
    caller: Authenticated,
    run: Annotated[list[str] | None, Query(max_length=_RUNS)] = None,
    draft: DraftQuery = None,
) -> Response:
    """Show the editor with a draft, and with statements that were submitted before.

    It submits nothing.
    """
    statements = node_of(request).statements
    opened = None
    if draft is not None:
        with suppress(DraftNotFound):
            opened = node_of(request).drafts.open_draft(caller, draft)
    runs: list[EditorRun] = []
    for statement_id in run or []:
        try:
            statement = statements.get(caller, statement_id)
        except StatementNotFound:
            continue
        runs.append(EditorRun(statement, show_begin(statement.spec.text)))
    return render(
        request,
        "editor.html",
        caller=caller,
        now=node_of(request).read_clock(),
        runs=runs,
        text=opened.text if opened else mask_sql(runs[-1].statement.spec.text) if runs else "",
        draft=opened,
        is_missing=len(runs) < len(run or []),
        missing_draft=draft if opened is None else None,
    )


@router.post("/editor/run")
async def run_from_editor(request: Request, caller: Authenticated) -> Response:
    """Submit one statement, in the connection of the editor or in a new one.

    A script gets JSON; a form without scripts leads to the page of the statement.
    """
    is_script = request.headers.get("accept") == "application/json"
    try:
        form = await read_form(request, max_bytes=MAX_FORM_BYTES)
        submit = _submit if is_script else _submit_alone
        statement, is_new = await run_in_threadpool(submit, node_of(request), caller, form)
    except HeadraceError as error:
        if not is_script:
            raise
        return JSONResponse(describe_error(error), error.status)
    if not is_script:
        return redirect(f"../statements/{statement.id}")
    body = {
        "id": statement.id,
        "connection": statement.connection_id,
        "is_new_connection": is_new,
    }
    return JSONResponse(body, 201)


@router.post("/editor/split")
async def split_in_editor(request: Request, caller: Authenticated) -> Response:  # noqa: ARG001
    """Return the statements of a script, with their positions in code points.

    The editor asks the user before it runs one that changes a whole table.
    """
    try:
        form = await read_form(request, max_bytes=MAX_FORM_BYTES)
    except HeadraceError as error:
        return JSONResponse(describe_error(error), error.status)
    found = await run_in_threadpool(split_script, form.get("text", ""))
    return JSONResponse(
        [
            {
                "text": each.text,
                "from": each.offset,
                "changes_all_of": find_unrestricted(each.text),
            }
            for each in found
        ]
    )


def _submit(node: Node, caller: Caller, form: Mapping[str, str]) -> tuple[Statement, bool]:
    """Return the new statement, and whether its connection is new.

    Raises:
        InvalidRequest: The text has no statement, or several.
        HeadraceError: As `Statements.submit` and `ClientConnections.open`.
    """
    text, key = _read_text(form), form.get("key", "")
    if len(key) > _MAX_KEY:
        raise InvalidRequest(f"key: It has at most {_MAX_KEY} characters.")
    repeatable = None
    if key:
        repeatable = RepeatableRequest(key, hashlib.sha256(text.encode()).hexdigest())
    submit = partial(node.statements.submit, caller, StatementSpec(text=text))
    connection = form.get("connection", "")
    if connection:
        # It may have been closed, for example because it was idle for hours.
        with suppress(ConnectionNotFound):
            return submit(connection=connection, repeatable=repeatable), False
    opened = node.connections.open(caller, ConnectionSpec(), protocol=PROTOCOL)
    try:
        statement = submit(connection=opened.id, repeatable=repeatable)
    except HeadraceError:
        node.connections.close(caller, opened.id)
        raise
    if statement.connection_id != opened.id:
        # The answer to the first submit was lost: the statement has a connection already.
        node.connections.close(caller, opened.id)
    return statement, True


def _submit_alone(node: Node, caller: Caller, form: Mapping[str, str]) -> tuple[Statement, bool]:
    """Return the new statement of a form without scripts, which keeps no connection."""
    return node.statements.submit(caller, StatementSpec(text=_read_text(form))), False


def _read_text(form: Mapping[str, str]) -> str:
    statements = split_script(form.get("text", ""))
    if len(statements) != 1:
        raise InvalidRequest(
            f"The text has {len(statements)} statements. One is run at a time.",
            hint="With scripts in the browser, the editor runs them one after the other.",
        )
    return statements[0].text


def describe_error(error: HeadraceError) -> dict[str, Any]:
    """Return the body with which the editor shows an error."""
    position = error.position
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "line": None if position is None else position.line,
        "column": None if position is None else position.column,
    }


@router.get("/statements/{statement_id}/state")
async def show_state(request: Request, caller: Authenticated, statement_id: str) -> Response:
    """Return the state of a statement."""
    statement = await node_of(request).async_statements.get(caller, statement_id)
    failure = statement.failure
    body = {
        "state": statement.state,
        "has_ended": statement.state in STATEMENT.terminal,
        "has_succeeded": statement.state is StatementState.SUCCESS,
        "error": None
        if failure is None
        else {"message": failure.text, "line": failure.line, "column": failure.column},
    }
    return JSONResponse(body, headers={"Cache-Control": "no-store"})
