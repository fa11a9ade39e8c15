"""The drafts of the editor, which its script saves, and the last statements of its user."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Annotated

from fastapi import Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from headrace.errors import DraftNotFound, HeadraceError, InvalidRequest
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.web.editor_pages import (
    DRAFT_PATTERN,
    MAX_FORM_BYTES,
    EditorRun,
    describe_error,
)
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import (
    Question,
    ask,
    is_confirmed,
    make_router,
    redirect,
    render,
)
from headrace.frontends.web.statement_pages import show_begin

_STATEMENTS = 20
_REVISION = re.compile(r'"([0-9]{1,9})"')
_CONNECTION = re.compile(r"cn_[0-9a-f]{32}")

router = make_router()

DraftPath = Annotated[str, Path(pattern=DRAFT_PATTERN)]


@router.get("/editor/drafts")
def render_drafts(request: Request, caller: Authenticated) -> Response:
    """List the drafts of the user, and the last statements of the user and its groups."""
    node = node_of(request)
    page = node.statements.page(
        caller,
        session=None,
        states=None,
        before=None,
        id_prefix=None,
        limit=_STATEMENTS,
        all_owners=False,
    )
    return render(
        request,
        "drafts.html",
        caller=caller,
        now=node.read_clock(),
        drafts=node.drafts.list_drafts(caller),
        rows=[EditorRun(each, show_begin(each.spec.text)) for each in page.items],
    )


@router.get("/editor/drafts/{draft}")
def show_draft(request: Request, caller: Authenticated, draft: DraftPath) -> Response:
    """Return a draft, for an editor that was loaded while the save of its text was under way."""
    try:
        found = node_of(request).drafts.open_draft(caller, draft)
    except HeadraceError as error:
        return JSONResponse(describe_error(error), error.status)
    body = {"id": found.id, "revision": found.revision, "text": found.text}
    return JSONResponse(body, headers={"Cache-Control": "no-store"})


@router.put("/editor/drafts/{draft}")
async def save_draft_of_editor(
    request: Request, caller: Authenticated, draft: DraftPath
) -> Response:
    """Save a text as the next revision of a draft: `If-Match` has the one that it replaces.

    Revision 0 stands for a new draft, with an id that the editor has chosen. If the draft has
    another revision by now, the text becomes a draft of its own: the answer has its id.
    """
    try:
        form = await read_form(request, max_bytes=MAX_FORM_BYTES)
        revision, text = _read_revision(request), form.get("text", "")
        connection = form.get("connection", "")
        save = partial(node_of(request).drafts.save_draft, caller, draft, revision)
        saved = await run_in_threadpool(
            save,
            title=await run_in_threadpool(show_begin, text),
            text=text,
            connection_id=connection if _CONNECTION.fullmatch(connection) else None,
        )
    except HeadraceError as error:
        return JSONResponse(describe_error(error), error.status)
    body = {"id": saved.id, "revision": saved.revision}
    headers = {"ETag": f'"{saved.revision}"', "Cache-Control": "no-store"}
    return JSONResponse(body, 201 if saved.is_new else 200, headers)


def _read_revision(request: Request) -> int:
    match = _REVISION.fullmatch(request.headers.get("if-match", ""))
    if match is None:
        raise InvalidRequest('If-Match: It is the revision that is replaced, for example "3".')
    return int(match[1])


@router.post("/editor/drafts/{draft}/delete")
async def delete_draft_from_page(
    request: Request, caller: Authenticated, draft: DraftPath
) -> Response:
    """Ask, then delete a draft, and list the others."""
    form = await read_form(request)
    drafts = node_of(request).drafts
    with suppress(DraftNotFound):
        found = await run_in_threadpool(drafts.open_draft, caller, draft)
        question = Question(
            "Delete the draft?",
            [found.title or "(empty)", "No copy of its text is kept."],
            "Delete the draft",
            "../../drafts",
        )
        if not is_confirmed(form, question):
            return ask(request, caller, question)
    await run_in_threadpool(drafts.delete_draft, caller, draft)
    return redirect("../../drafts")
