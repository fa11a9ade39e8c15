"""The pages of materialized views."""

from __future__ import annotations

import shlex
from typing import Annotated

from fastapi import Path, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.node import Node
from headrace.control.policy import Action, Caller, may, visible_owners
from headrace.control.views.status import describe_view
from headrace.errors import HeadraceError, MaterializedViewBusy
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import Copy, make_router, redirect, render, show_json
from headrace.frontends.web.statement_pages import ALL
from headrace.grammar.masking import mask_statement
from headrace.grammar.quoting import quote_name
from headrace.model.lifecycle import MaterializedViewState
from headrace.model.materialized_view import MaterializedView
from headrace.model.statement import Statement, StatementSpec
from headrace.model.stream_history import parse_instant

_VIEWS = 100
"""Views of a list. An owner has few: each is a table that is kept up to date."""

router = make_router()

ViewPath = Annotated[str, Path(max_length=100)]


@router.get("/views")
def render_views(request: Request, caller: Authenticated, owner: str = "mine") -> Response:
    """List materialized views by name: their state, their age, and how they are refreshed."""
    return render(
        request,
        "views.html",
        caller=caller,
        views=node_of(request).views.list_views(caller, limit=_VIEWS, all_owners=owner == ALL),
        owner=owner,
        sees_others=visible_owners(caller) is None,
    )


@router.get("/views/{view}")
@router.get("/views/{view}/refresh")
def render_view(request: Request, caller: Authenticated, view: ViewPath) -> Response:
    """Show a materialized view."""
    return _show_view(request, caller, view)


def _show_view(
    request: Request, caller: Caller, view: str, refusal: HeadraceError | None = None
) -> Response:
    status = node_of(request).views.get_view(caller, view)
    now, describe = node_of(request).read_clock(), _write_describe(status.view)
    fresh_as_of = parse_instant(status.fresh_as_of)
    return render(
        request,
        "view.html",
        caller=caller,
        refusal=refusal,
        now=now,
        age=None if fresh_as_of is None else (now - fresh_as_of).total_seconds(),
        fresh_as_of=fresh_as_of,
        copies=[
            Copy("CLI", f"headrace sql {shlex.quote(describe)}"),
            Copy("Python", f"headrace.connect().cursor().execute({describe!r})"),
        ],
        status=status,
        view=status.view,
        text=mask_statement(status.view.text),
        # A query refreshes its view by itself, and a statement runs for its own submitter only.
        may_refresh=status.state == MaterializedViewState.ACTIVE
        and status.query is None
        and status.view.owner in caller.owners
        and may(caller, Action.CHANGE, status.view),
    )


@router.get("/views/{view}/json")
def show_view_as_json(request: Request, caller: Authenticated, view: ViewPath) -> Response:
    """Show the properties of a view. The API has no other description of it."""
    status = node_of(request).views.get_view(caller, view)
    return show_json(describe_view(status))


@router.post("/views/{view}/refresh")
async def refresh_from_page(request: Request, caller: Authenticated, view: ViewPath) -> Response:
    """Submit a refresh of a view, and show its statement."""
    await read_form(request)
    try:
        statement = await run_in_threadpool(_submit_refresh, node_of(request), caller, view)
    except MaterializedViewBusy:
        # A second click, or another tab: the page shows the refresh that runs.
        return redirect(f"../{view}")
    except HeadraceError as error:
        return await run_in_threadpool(_show_view, request, caller, view, refusal=error)
    return redirect(f"../../statements/{statement.id}")


def _write_describe(view: MaterializedView) -> str:
    """Return the statement that shows a view as this page does: the API has no other."""
    return f"DESCRIBE MATERIALIZED VIEW {'.'.join(map(quote_name, view.rows.path))}"


def _submit_refresh(node: Node, caller: Caller, view_id: str) -> Statement:
    view = node.views.get_view(caller, view_id).view
    name = ".".join(map(quote_name, view.rows.path))
    spec = StatementSpec(text=f"REFRESH MATERIALIZED VIEW {name}")
    return node.statements.submit(caller, spec, owner=view.owner)
