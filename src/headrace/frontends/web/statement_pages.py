"""The pages of statements. No page waits for a driver, and no GET changes an object."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.node import Node
from headrace.control.policy import Action, Caller, may, visible_owners
from headrace.control.statements.wait_reasons import can_wait
from headrace.errors import (
    AlreadyEnded,
    ExecutionNotFound,
    HeadraceError,
    NotPermitted,
    SessionNotFound,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.serializers import execution_body, statement_body
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import (
    Copy,
    copy_object,
    make_query,
    make_router,
    redirect,
    render,
    show_json,
)
from headrace.frontends.web.result_pages import (
    CELL_CHARACTERS,
    COLUMNS,
    ROWS,
    DownloadFormat,
    GridStart,
    ShownPart,
    list_columns,
    read_grid,
)
from headrace.grammar.masking import mask_sql
from headrace.model.event import Event
from headrace.model.execution import StatementExecution
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.reasons import Reason, explain_statement
from headrace.model.session import DRIVER_ACTOR
from headrace.model.statement import CancelReason, Statement
from headrace.model.text import cut_text
from headrace.text.readable import describe_count

_STOPS = frozenset({StatementState.CANCELLING, StatementState.CANCELLED})
_STOP_REASONS = {
    CancelReason.TIMEOUT: "its timeout was over",
    CancelReason.CLOSED: "its session was closed",
}
_REFRESH_SECONDS = 5
"""Time after which an open page asks again without an event."""
_REPORT_SECONDS = 60.0
"""Time after the end of a statement in which its driver may still report what Spark has done."""
ITEMS = 50
"""Rows of a list on one page."""
_SQL_CHARACTERS, _MASKED_CHARACTERS = 200, 4000
"""What a list shows of a text, and what it searches for secrets."""
_TEXT_CHARACTERS = 64 * 1024
"""What the page of a statement shows of its text, which may have 10 MiB."""
_NEWER = 100
"""Newer statements that an open list counts, and those that a filter hides."""
_OLDEST = f"st_{0:032x}"
ALL = "all"
EVENTS = 100
"""Events of an object on one page."""
EventCursor = Annotated[str | None, Query(max_length=60)]
"""Position in the event log: only events before it are shown."""
StatementPosition = Annotated[str | None, Query(pattern=r"^st_[0-9a-f]{32}$")]

router = make_router()


@dataclass(frozen=True, slots=True)
class _ListHeads:
    """Heads of the columns that depend on the state that a list shows."""

    reason: str = "Why, or cause"
    time: str = "Time"
    has_rows: bool = True


_HEADS: dict[StatementState | None, _ListHeads] = {
    StatementState.WAITING: _ListHeads("Blocked by", "Waiting for", has_rows=False),
    StatementState.LAUNCHED: _ListHeads("Progress", "Launched for", has_rows=False),
    StatementState.RUNNING: _ListHeads("Progress", "Running for", has_rows=False),
    StatementState.CANCELLING: _ListHeads("Why it still runs", "Running for", has_rows=False),
    StatementState.FAILED: _ListHeads("Cause", "Failed after", has_rows=False),
    StatementState.TIMEOUT: _ListHeads("Cause", "Ended after", has_rows=False),
    StatementState.CANCELLED: _ListHeads("Cause", "Ended after", has_rows=False),
}


@dataclass(frozen=True, slots=True)
class StatementRow:
    """A statement in the list."""

    statement: Statement
    text: str
    """The begin of its SQL, in one line."""
    session_name: str | None
    reason: Reason | None
    since: datetime
    """Begin of the time that the list shows, see `_find_begin`."""
    seconds: float
    """Time since then, or until its end."""


@router.get("/statements")
def render_statements(
    request: Request,
    caller: Authenticated,
    state: str = ALL,
    session: str | None = None,
    owner: str = "mine",
    before: StatementPosition = None,
    first: StatementPosition = None,
) -> Response:
    """List statements, newest first: those of the caller, or all that the caller may read.

    A page that is open keeps its rows: `first` is the first of them. It says how many are newer.
    """
    statements = node_of(request).statements
    states = [each for each in StatementState if each == state]
    page = statements.page(
        caller,
        session=session or None,
        states=states or None,
        all_owners=owner == ALL,
        before=_follow(first) if first else before,
        id_prefix=None,
        limit=ITEMS,
    )
    hidden = newer = 0
    if not page.items and (states or session):
        hidden = statements.count_newer(
            caller, _OLDEST, session=None, states=None, all_owners=owner == ALL, limit=_NEWER
        )
    if first:
        newer = statements.count_newer(
            caller,
            first,
            session=session or None,
            states=states or None,
            all_owners=owner == ALL,
            limit=_NEWER,
        )
    names = statements.find_session_names(caller, page.items)
    live = [each for each in page.items if each.state in STATEMENT.live and can_wait(each)]
    reasons = statements.find_wait_reasons(caller, live) if live else {}
    now = node_of(request).read_clock()
    rows = [
        StatementRow(
            each,
            show_begin(each.spec.text),
            names.get(each.session_id),
            explain_statement(each, reasons.get(each.id, (None, None))[1]),
            since := _find_begin(each, is_alone=len(states) == 1),
            ((each.ended_at or now) - since).total_seconds(),
        )
        for each in page.items
    ]
    chosen = {"state": states[0] if states else ALL, "session": session, "owner": owner}
    link = None if before or not rows else make_query({**chosen, "first": rows[0].statement.id})
    return render(
        request,
        "statements.html",
        caller=caller,
        now=now,
        link=link,
        newer=newer,
        hidden=hidden,
        most=_NEWER,
        heads=_HEADS.get(states[0] if states else None, _ListHeads()),
        filter=chosen,
        rows=rows,
        states=list(StatementState),
        state=states[0] if states else ALL,
        session=session or "",
        owner=owner,
        sees_others=visible_owners(caller) is None,
        before=before,
        next=page.items[-1].id if page.more else None,
    )


def _find_begin(statement: Statement, *, is_alone: bool) -> datetime:
    """Return from when on a list counts the time of a statement.

    Args:
        is_alone: Whether the list has statements of its state alone.
    """
    begin = None
    if is_alone and statement.state is StatementState.LAUNCHED:
        begin = statement.launched_at
    elif is_alone and statement.state in STATEMENT.in_flight:
        begin = statement.started_at or statement.launched_at
    elif is_alone and statement.state is StatementState.WAITING:
        begin = statement.waiting_since
    return begin or statement.created_at


def _follow(statement_id: str) -> str:
    """Return the id after an id, as a position before which a page begins with it."""
    return f"st_{int(statement_id.removeprefix('st_'), 16) + 1:032x}"


@dataclass(frozen=True, slots=True)
class ShownText:
    """The SQL of a statement on its page."""

    before: str
    """The text up to the end of the line with the error; without an error, the whole text."""
    caret: int | None
    """Number of characters before the place of the error in its line; None: no place is shown."""
    after: str
    is_cut: bool


def show_text(statement: Statement) -> ShownText:
    """Return the SQL of a statement without secrets, with the place of its error.

    The place is that of the driver's report. It is shown if it exists in the text.
    """
    text, failure = statement.spec.text, statement.failure
    begin = text[:_TEXT_CHARACTERS]
    # A secret that the cut divides could not be recognised.
    is_cut = len(begin) < len(text)
    begin = begin.rpartition("\n")[0] if is_cut else begin
    shown = mask_sql(begin)
    if failure is None or failure.line is None or failure.column is None or shown != begin:
        return ShownText(shown, None, "", is_cut)
    lines = shown.split("\n")
    if failure.line > len(lines) or failure.column - 1 > len(lines[failure.line - 1]):
        return ShownText(shown, None, "", is_cut)
    before, after = lines[: failure.line], lines[failure.line :]
    return ShownText("\n".join(before), failure.column - 1, "\n".join(after), is_cut)


def show_begin(text: str) -> str:
    """Return the begin of a SQL text without secrets, in one line, for a list."""
    begin = text[:_MASKED_CHARACTERS]
    if len(begin) < len(text):
        begin = begin.rpartition(" ")[0]
    return " ".join(cut_text(mask_sql(begin), _SQL_CHARACTERS).split())


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
class StopStep:
    """A step of a stop."""

    text: str
    at: datetime | None
    is_done: bool = True


def list_stop_steps(
    statement: Statement, events: Sequence[Event], active: int | None, now: datetime
) -> list[StopStep]:
    """Return how far a requested stop has come, and what proves it; none without a request.

    Args:
        events: Those of the statement, oldest first.
        active: Tasks that ran in Spark when its driver reported after the end; None: it has not.
        now: Time of the store.
    """
    if statement.cancel_requested_at is None:
        return []
    asked = [each for each in events if each.target in _STOPS and each.source != each.target]
    ended = [each for each in events if each.target in STATEMENT.terminal]
    by = f" by {asked[0].actor}" if asked else ""
    reason = statement.cancel_reason or CancelReason.REQUESTED
    why = "" if reason is CancelReason.REQUESTED else f" ({_STOP_REASONS.get(reason, reason)})"
    steps = [StopStep(f"asked{by}{why}", statement.cancel_requested_at)]
    if not ended:
        return [*steps, StopStep("the driver has not confirmed the stop yet", None, is_done=False)]
    end = ended[-1]
    if end.source in STATEMENT.queued:
        return [*steps, StopStep("no driver works on it", end.at)]
    if not end.actor.startswith(DRIVER_ACTOR):
        return [*steps, StopStep("the driver's process has ended, and every task with it", end.at)]
    said = "" if end.target == StatementState.CANCELLED else f": it had ended as {end.target}"
    steps.append(StopStep(f"the driver has confirmed the stop{said}", end.at))
    is_late = (now - end.at).total_seconds() > _REPORT_SECONDS
    return [*steps, _describe_tasks(statement, active, is_late=is_late)]


def _describe_tasks(statement: Statement, active: int | None, *, is_late: bool) -> StopStep:
    """Return what is known of the tasks of a stopped statement, whose driver may not report it."""
    if active == 0:
        return StopStep("0 tasks of it run in Spark", None)
    if active is not None:
        text = f"{describe_count(active, 'task')} of it did not end when Spark killed them"
        return StopStep(text, None, is_done=False)
    if statement.progress is None:
        return StopStep("Spark had begun no job of it", None)
    text = "the driver has not reported yet that no task of it runs"
    if is_late:
        text = "the driver has not reported whether tasks of it still run"
    return StopStep(text, None, is_done=False)


@router.get("/statements/{statement_id}")
async def render_statement(
    request: Request,
    caller: Authenticated,
    statement_id: str,
    start: ShownPart,
    events: EventCursor = None,
) -> Response:
    """Show a statement: why it waits or failed, where its time went, its SQL and its rows."""
    statements = node_of(request).async_statements
    statement = await statements.get(caller, statement_id)
    reads = statements.select_reads(statement)
    return await reads.run(_render_statement, request, caller, statement, start, events)


@router.get("/statements/{statement_id}/json")
async def show_statement_as_json(
    request: Request, caller: Authenticated, statement_id: str
) -> Response:
    """Show a statement as the API does."""
    statement = await node_of(request).async_statements.get(caller, statement_id)
    return show_json(statement_body(statement, trace=True))


@router.post("/statements/{statement_id}/cancel")
async def cancel_from_page(request: Request, caller: Authenticated, statement_id: str) -> Response:
    """Cancel a statement, and show it again."""
    await read_form(request)
    cancel = node_of(request).statements.cancel
    # The page shows how a statement has ended.
    with suppress(AlreadyEnded):
        await run_in_threadpool(cancel, caller, statement_id)
    return redirect(f"../{statement_id}")


def _render_statement(
    request: Request, caller: Caller, statement: Statement, start: GridStart, before: str | None
) -> Response:
    node = node_of(request)
    waiting_for = None
    if statement.state in STATEMENT.live and can_wait(statement):
        reasons = node.statements.find_wait_reasons(caller, [statement])
        waiting_for = reasons.get(statement.id, (None, None))[1]
    events = read_events(request, caller, statement.id, before)
    last_events = events if before is None else read_events(request, caller, statement.id, None)
    failure, grid, rows_error = statement.failure, None, None
    now, execution = node.read_clock(), None
    # Those without the right to the content, and statements without a Spark job, have none.
    with suppress(ExecutionNotFound, NotPermitted):
        if statement.state in STATEMENT.terminal:
            execution = node.statements.get_execution(caller, statement.id)
    comparison = None
    if statement.started_at is not None:
        comparison = node.statements.compare_with_former_runs(caller, statement, execution)
    active = None
    if statement.cancel_requested_at is not None:
        active = node.statements.count_active_tasks(caller, statement.id)
    silent_since = _find_silence(node, caller, statement, now)
    try:
        grid = read_grid(request, caller, statement, start)
    except HeadraceError as error:
        rows_error = error
    # No event says that Spark has done a task, that a driver is silent, or that the driver has
    # reported what Spark has done.
    may_change_silently = statement.state in STATEMENT.live or (
        execution is None
        and statement.progress is not None
        and statement.ended_at is not None
        and (now - statement.ended_at).total_seconds() < _REPORT_SECONDS
    )
    return render(
        request,
        "statement.html",
        caller=caller,
        now=now,
        # The editor shows the page, too: its address does not tell the statement.
        link=f"../statements/{statement.id}{make_query({**start.chosen, 'events': before})}",
        statement=statement,
        text=show_text(statement),
        failure=failure,
        waiting_for=waiting_for,
        reason=explain_statement(statement, waiting_for),
        comparison=comparison,
        silent_since=silent_since,
        phases=divide_time(statement, silent_since or now, execution),
        execution=None if execution is None else execution_body(execution),
        events=events,
        stop_steps=list_stop_steps(statement, last_events.items[::-1], active, now),
        grid=grid,
        columns=[]
        if statement.result is None or not statement.result.gone
        else list_columns(statement.result),
        rows_error=rows_error,
        page_rows=ROWS,
        page_columns=COLUMNS,
        cell_characters=CELL_CHARACTERS,
        downloads=list(DownloadFormat),
        copies=_write_copies(statement),
        may_read_rows=may(caller, Action.READ_CONTENT, statement),
        is_live=statement.state in STATEMENT.live,
        refresh_seconds=_REFRESH_SECONDS if may_change_silently else None,
        may_cancel=statement.state in STATEMENT.live and may(caller, Action.CHANGE, statement),
    )


def _find_silence(
    node: Node, caller: Caller, statement: Statement, now: datetime
) -> datetime | None:
    """Return when the driver of a statement should have given a sign of life; None: it is heard."""
    if statement.state not in STATEMENT.in_flight:
        return None
    with suppress(SessionNotFound):
        until = node.sessions.get(caller, statement.session_id).lease_until
        return until if until is not None and until < now else None
    return None


@dataclass(frozen=True, slots=True)
class ShownEvents:
    """Events of an object, newest first."""

    items: list[Event]
    before: str | None
    """Cursor before which they are; None: they are the last ones."""
    older: str | None
    """Cursor for the next page; None: these are the first events of the object."""


def read_events(
    request: Request, caller: Caller, object_id: str, before: str | None
) -> ShownEvents:
    """Return the last events of an object, or those before a cursor.

    Raise InvalidRequest if it is no cursor.
    """
    read = node_of(request).events.read_newest
    items = read(caller, object_id, before=before, limit=EVENTS + 1)
    older = items[EVENTS - 1].cursor if len(items) > EVENTS else None
    return ShownEvents(items[:EVENTS], before, older)


def _find_stages(
    statement: Statement, end: datetime, execution: StatementExecution | None
) -> tuple[datetime, datetime] | None:
    """Return when the first stage began and the last one ended, within the run of a statement."""
    if execution is None or statement.started_at is None:
        return None
    begins = [each.started_at for each in execution.stages if each.started_at is not None]
    ends = [each.ended_at for each in execution.stages if each.ended_at is not None]
    if not begins or not ends:
        return None
    first = min(max(min(begins), statement.started_at), end)
    return first, min(max(*ends, first), end)


def _write_copies(statement: Statement) -> list[Copy]:
    """Return commands that read a statement, and those that run its text again."""
    copies = [
        *copy_object(f"statements/{statement.id}", f"headrace statement show {statement.id}"),
        Copy("Python", f'headrace.connect().cursor().attach("{statement.id}")'),
    ]
    text = statement.spec.text
    # The text alone does not say the same where it has parameters, or the state of a connection.
    is_alone = not statement.spec.parameters and statement.connection_id is None
    if is_alone and len(text) <= _TEXT_CHARACTERS and mask_sql(text) == text:
        copies += [
            Copy("Run again by CLI", f"headrace sql {shlex.quote(text)}"),
            Copy("Run again by Python", f"headrace.connect().cursor().execute({text!r})"),
        ]
    return copies


def divide_time(
    statement: Statement, now: datetime, execution: StatementExecution | None = None
) -> list[Phase]:
    """Return the phases of a statement. Their sum is its wall time since the submit.

    Args:
        execution: Its Spark stages, whose times are on the clock of the driver.
    """
    end = statement.ended_at or now
    # A statement whose driver was lost waits again.
    was_lost = statement.attempts > (statement.launched_at is not None)
    marks: list[tuple[str, datetime | None]] = [
        ("lost attempts", statement.created_at if was_lost else None),
        ("waiting", statement.waiting_since if was_lost else statement.created_at),
        ("starting", statement.launched_at),
        ("running", statement.started_at),
    ]
    stages = _find_stages(statement, end, execution)
    if stages is not None:
        marks[-1] = ("analysis", statement.started_at)
        marks += [("Spark stages", stages[0]), ("commit and result", stages[1])]
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
