"""The pages of statements. No page waits for a driver, and no GET changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.policy import Action, Caller, may, visible_owners
from headrace.control.statements.wait_reasons import can_wait
from headrace.errors import AlreadyEnded
from headrace.frontends.http.auth import WEB_PREFIX, node_of
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import redirect, render
from headrace.frontends.web.sign_in import Visitor
from headrace.grammar.masking import mask_sql
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.result import Disposition, ResultInfo
from headrace.model.statement import Statement, WaitingFor
from headrace.model.text import cut_text
from headrace.results.formats.csv import show_column
from headrace.results.reader import RowRange, Rows
from headrace.results.schema import Column

ITEMS = 50
"""Rows of a list on one page."""
_SQL_CHARACTERS = 200
_EVENTS = 100
_ROWS, _COLUMNS, _CELL_CHARACTERS = 200, 100, 1000
"""What a page shows of a result."""
ALL = "all"

router = APIRouter(prefix=WEB_PREFIX, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class StatementRow:
    """A statement in the list."""

    statement: Statement
    text: str
    """The begin of its SQL, in one line."""
    session_name: str | None
    waiting_for: WaitingFor | None
    seconds: float
    """Time since its submit, or until its end."""


@router.get("/statements")
def list_statements(
    request: Request,
    caller: Visitor,
    state: str = ALL,
    session: str | None = None,
    owner: str = "mine",
    before: Annotated[str | None, Query(pattern=r"^st_[0-9a-f]{32}$")] = None,
) -> Response:
    """List statements, newest first: those of the caller, or all that the caller may read."""
    statements = node_of(request).statements
    states = [each for each in StatementState if each == state]
    page = statements.page(
        caller,
        session=session or None,
        states=states or None,
        before=before,
        id_prefix=None,
        limit=ITEMS,
        all_owners=owner == ALL,
    )
    names = statements.find_session_names(caller, page.items)
    live = [each for each in page.items if each.state in STATEMENT.live and can_wait(each)]
    reasons = statements.find_wait_reasons(caller, live) if live else {}
    now = datetime.now(UTC)
    rows = [
        StatementRow(
            each,
            " ".join(cut_text(mask_sql(each.spec.text), _SQL_CHARACTERS).split()),
            names.get(each.session_id),
            reasons.get(each.id, (None, None))[1],
            ((each.ended_at or now) - each.created_at).total_seconds(),
        )
        for each in page.items
    ]
    return render(
        request,
        "statements.html",
        caller=caller,
        rows=rows,
        states=list(StatementState),
        state=states[0] if states else ALL,
        session=session or "",
        owner=owner,
        sees_others=visible_owners(caller) is None,
        before=before,
        next=page.items[-1].id if page.more else None,
    )


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the wall time of a statement."""

    name: str
    seconds: float
    offset: float
    """Share of the wall time before the phase, in percent."""
    share: float
    """Its share of the wall time, in percent."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The first rows of a result, as text; None is NULL."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str | None]]
    result: ResultInfo

    @property
    def hidden_columns(self) -> int:
        """Number of columns that the page leaves out."""
        return max(0, len(self.columns) - _COLUMNS)


@router.get("/statements/{statement_id}")
async def show_statement(request: Request, caller: Visitor, statement_id: str) -> Response:
    """Show a statement: why it waits or failed, where its time went, its SQL and its rows."""
    statement = await node_of(request).async_statements.get(caller, statement_id)
    return await run_in_threadpool(_show_statement, request, caller, statement)


@router.post("/statements/{statement_id}/cancel")
async def cancel_statement(request: Request, caller: Visitor, statement_id: str) -> Response:
    """Cancel a statement, and show it again."""
    await read_form(request)
    cancel = node_of(request).statements.cancel
    # The page shows how a statement has ended.
    with suppress(AlreadyEnded):
        await run_in_threadpool(cancel, caller, statement_id)
    return redirect(f"../{statement_id}")


def _show_statement(request: Request, caller: Caller, statement: Statement) -> Response:
    node = node_of(request)
    waiting_for = None
    if statement.state in STATEMENT.live and can_wait(statement):
        reasons = node.statements.find_wait_reasons(caller, [statement])
        waiting_for = reasons.get(statement.id, (None, None))[1]
    events = node.events.read(
        caller, after=None, entity="statement", entity_id=statement.id, limit=_EVENTS
    )
    failure = statement.failure
    return render(
        request,
        "statement.html",
        caller=caller,
        statement=statement,
        lines=mask_sql(statement.spec.text).split("\n"),
        failure=failure,
        waiting_for=waiting_for,
        phases=divide_time(statement, datetime.now(UTC)),
        events=events,
        grid=_read_grid(request, caller, statement),
        is_live=statement.state in STATEMENT.live,
        may_cancel=statement.state in STATEMENT.live and may(caller, Action.CHANGE, statement),
    )


def divide_time(statement: Statement, now: datetime) -> list[Phase]:
    """Return the phases of a statement. Their sum is its wall time since the submit."""
    end = statement.ended_at or now
    marks: list[tuple[str, datetime | None]] = [
        ("waiting", statement.created_at),
        ("starting", statement.launched_at),
        ("running", statement.started_at),
    ]
    reached = [(name, at) for name, at in marks if at is not None]
    ends = [*(at for _name, at in reached[1:]), end]
    total = max((end - statement.created_at).total_seconds(), 1e-6)
    phases, offset = list[Phase](), 0.0
    for (name, begin), until in zip(reached, ends, strict=True):
        seconds = max(0.0, (until - begin).total_seconds())
        share = 100 * seconds / total
        phases.append(Phase(name, seconds, round(offset, 2), round(share, 2)))
        offset += share
    return phases


def _read_grid(request: Request, caller: Caller, statement: Statement) -> Grid | None:
    """Return the first rows of a result that the store holds; None: the page shows none."""
    result = statement.result
    if (
        result is None
        or result.gone
        or result.disposition != Disposition.INLINE
        or not may(caller, Action.READ_CONTENT, statement)
    ):
        return None
    selection = RowRange(0, _ROWS)
    rows = node_of(request).statements.open_result(caller, statement, selection=selection)
    return Grid(rows.schema.columns, _read_cells(rows, selection), result)


def _read_cells(rows: Rows, selection: RowRange) -> list[list[str | None]]:
    columns = rows.schema.columns[:_COLUMNS]
    cells: list[list[str | None]] = []
    for batch in rows.select(selection):
        texts = [
            show_column(array, column.type).to_pylist()
            for array, column in zip(batch.columns, columns, strict=False)
        ]
        cells.extend(
            [None if each is None else _cut_cell(each) for each in values]
            for values in zip(*texts, strict=True)
        )
    return cells


def _cut_cell(text: str) -> str:
    return text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}…"
