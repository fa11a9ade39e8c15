"""The pages of runs and backfills of batch jobs, and what starts them on the page of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.node import Node
from headrace.control.policy import Action, Caller, may, visible_owners
from headrace.control.runs.service import Backfill, RunStatus
from headrace.errors import HeadraceError, InvalidRequest, JobNotFound, JobStateConflict
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.routes.runs import run_body
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.job_pages import JobPath, show_job
from headrace.frontends.web.rendering import (
    Copy,
    Question,
    ask,
    copy_object,
    is_confirmed,
    make_router,
    redirect,
    render,
    show_json,
)
from headrace.frontends.web.statement_pages import ALL, ITEMS
from headrace.model.lifecycle import RUN, RunState
from headrace.model.reasons import Reason, explain_statement
from headrace.model.run import JobRun, JobSchedule, RunStatement, RunTimes
from headrace.model.statement import Statement
from headrace.text.readable import describe_count

_MOST_HIDDEN = 100
"""Runs that a filter hides, up to which they are counted."""
_LISTED_INTERVALS = 20
"""Intervals that the question before a backfill lists."""
_MAX_PARALLEL_DIGITS = 3
_WORST_FIRST = (RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED, RunState.RUNNING)

router = make_router()

RunPath = Annotated[str, Path(max_length=100)]
BackfillPath = Annotated[str, Path(max_length=100)]
RunPosition = Annotated[str | None, Query(pattern=r"^rn_[0-9a-f]{32}$")]


class RunPageAction(StrEnum):
    """What a page offers to do with a run."""

    CANCEL = "cancel"
    REPAIR = "repair"


@router.get("/runs")
def render_runs(
    request: Request,
    caller: Authenticated,
    state: str = ALL,
    job: Annotated[str, Query(max_length=1024)] = "",
    owner: str = "mine",
    before: RunPosition = None,
) -> Response:
    """List runs, newest first; those of one job by their logical times."""
    node, is_all = node_of(request), owner == ALL
    states = [each for each in RunState if each == state]
    found = _page(node, caller, job=job, states=states, before=before, is_all=is_all)
    hidden = 0
    if not found and (states or job):
        others = node.job_runs.page(caller, limit=_MOST_HIDDEN, all_owners=is_all)
        hidden = len(others)
    return render(
        request,
        "runs.html",
        caller=caller,
        now=node.read_clock(),
        runs=found[:ITEMS],
        hidden=hidden,
        most=_MOST_HIDDEN,
        states=list(RunState),
        state=states[0] if states else ALL,
        job=job,
        owner=owner,
        sees_others=visible_owners(caller) is None,
        before=before,
        next=found[ITEMS - 1].run.id if len(found) > ITEMS else None,
    )


def _page(
    node: Node,
    caller: Caller,
    *,
    job: str,
    states: Sequence[RunState],
    before: str | None,
    is_all: bool,
) -> list[RunStatus]:
    """Return the runs of a page and one more; none if there is no such job."""
    try:
        return node.job_runs.page(
            caller,
            job=job or None,
            states=states or None,
            before=before,
            limit=ITEMS + 1,
            all_owners=is_all,
        )
    except JobNotFound:
        return []


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A statement of a run in the table of its page."""

    row: RunStatement
    statement: Statement | None
    """None: it is not submitted yet, or the store has it no more."""
    reason: Reason | None


@router.get("/runs/{run}")
@router.get("/runs/{run}/cancel")
@router.get("/runs/{run}/repair")
def render_run(request: Request, caller: Authenticated, run: RunPath) -> Response:
    """Show a run: why it has not succeeded, its times, its attempts, and its actions."""
    return _show_run(request, caller, run)


def _show_run(
    request: Request, caller: Caller, run_id: str, refusal: HeadraceError | None = None
) -> Response:
    node = node_of(request)
    service = node.job_runs
    status = service.get(caller, run_id)
    run = status.run
    found = service.read_statements(caller, run.id)
    rows = [
        AttemptRow(each, statement, explain_statement(statement) if statement else None)
        for each in status.statements
        for statement in (found.get(each.statement_id),)
    ]
    has_ended = run.state in RUN.terminal
    action = None
    if run.state is not RunState.SUCCEEDED and may(caller, Action.CHANGE, run):
        action = RunPageAction.REPAIR if has_ended else RunPageAction.CANCEL
    python = "headrace.client.http.Client(os.environ['HEADRACE_SERVER'])"
    return render(
        request,
        "run.html",
        caller=caller,
        now=node.read_clock(),
        refusal=refusal,
        status=status,
        run=run,
        run_version=service.get_version(caller, run.id),
        local_time=show_local(run.times),
        rows=rows,
        action=action,
        has_ended=has_ended,
        copies=[
            *copy_object(f"runs/{run.id}", f"headrace job show-run {run.id}"),
            Copy("Python", f'{python}.run("{run.id}")'),
        ],
    )


def show_local(times: RunTimes) -> str:
    """Return the logical time on the clock of its schedule, with offset and zone."""
    zone = timezone(timedelta(seconds=times.utc_offset))
    return f"{times.logical_time.astimezone(zone).isoformat(' ', 'seconds')} {times.zone}"


@router.get("/runs/{run}/json")
def show_run_as_json(request: Request, caller: Authenticated, run: RunPath) -> Response:
    """Show a run as the API does."""
    return show_json(run_body(node_of(request).job_runs.get(caller, run)))


@router.post("/runs/{run}/{action}")
async def act_on_run_from_page(
    request: Request, caller: Authenticated, run: RunPath, action: RunPageAction
) -> Response:
    """Cancel or repair a run, and show it, or the new one. Ask before."""
    form = await read_form(request)
    service = node_of(request).job_runs
    status = await run_in_threadpool(service.get, caller, run)
    question = _ask_before(status, action, form)
    if not is_confirmed(form, question):
        return ask(request, caller, question)
    try:
        if action is RunPageAction.CANCEL:
            status = await run_in_threadpool(service.cancel, caller, run)
        else:
            is_latest = form.get("version") == "latest"
            status = await run_in_threadpool(service.repair, caller, run, latest=is_latest)
    except HeadraceError as error:
        return await run_in_threadpool(_show_run, request, caller, run, refusal=error)
    return redirect(f"../{status.run.id}")


def _ask_before(status: RunStatus, action: RunPageAction, form: Mapping[str, str]) -> Question:
    """Return what a page asks before an action on a run."""
    run = status.run
    name = f"the run of {run.name} for {show_local(run.times)}"
    if action is RunPageAction.CANCEL:
        losses = ["Its statement is cancelled, and no further one is submitted."]
        if run.position:
            count = describe_count(run.position, "statement")
            losses.append(f"What its first {count} wrote stays.")
        return Question(f"Cancel {name}?", losses, "Cancel the run", f"../{run.id}")
    is_latest = form.get("version") == "latest"
    first = 1 if is_latest else run.position + 1
    version = "the deployed version of the job" if is_latest else "the version that it ran"
    return Question(
        f"Repair {name}?",
        [f"A new run with the same times begins with statement {first} of {version}."],
        "Repair the run",
        f"../{run.id}",
        fields={"version": "latest" if is_latest else "same"},
        keep="No, leave it",
    )


@router.get("/backfills/{backfill}")
@router.get("/backfills/{backfill}/cancel")
def render_backfill(request: Request, caller: Authenticated, backfill: BackfillPath) -> Response:
    """Show how far a backfill has come, and its runs that have not succeeded."""
    node = node_of(request)
    members = node.job_runs.get_backfill(caller, backfill)
    counts = Counter(each.run.state for each in members)
    ended = sum(counts[state] for state in RUN.terminal)
    shown = [each for each in members if each.run.state is not RunState.SUCCEEDED]
    shown.sort(key=lambda each: _rank(each.run.state))
    first, last = members[0].run, members[-1].run
    can_cancel = ended < len(members) and may(caller, Action.CHANGE, first)
    return render(
        request,
        "backfill.html",
        caller=caller,
        now=node.read_clock(),
        backfill=backfill,
        first=first,
        last=last,
        total=len(members),
        ended=ended,
        counts=[(state, counts[state]) for state in RunState if counts[state]],
        shown=shown[:ITEMS],
        further=max(0, len(shown) - ITEMS),
        can_cancel=can_cancel,
    )


def _rank(state: RunState) -> int:
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)


@router.post("/backfills/{backfill}/cancel")
async def cancel_backfill_from_page(
    request: Request, caller: Authenticated, backfill: BackfillPath
) -> Response:
    """Cancel all runs of a backfill that have not ended, and show it. Ask before."""
    form = await read_form(request)
    service = node_of(request).job_runs
    members = await run_in_threadpool(service.get_backfill, caller, backfill)
    live = [each.run for each in members if each.run.state not in RUN.terminal]
    running = sum(run.state is RunState.RUNNING for run in live)
    loss = (
        f"{describe_count(len(live), 'run')} of {len(members):,} will be cancelled,"
        f" {running:,} of them while they run. Those that have ended stay."
    )
    question = Question(
        f"Cancel the backfill of {members[0].run.name}?",
        [loss],
        "Cancel the backfill",
        f"../{backfill}",
        len(live),
    )
    if not is_confirmed(form, question):
        return ask(request, caller, question)
    await run_in_threadpool(service.cancel_backfill, caller, backfill)
    return redirect(f"../{backfill}")


@router.post("/jobs/{job}/run")
async def run_job_from_page(request: Request, caller: Authenticated, job: JobPath) -> Response:
    """Run a job for its last logical time, and show the run. Ask before a time runs again."""
    form = await read_form(request)
    service = node_of(request).job_runs
    try:
        found = await run_in_threadpool(service.get_schedule, caller, job)
        question = _ask_before_repetition(None if found is None else found.repeated)
        if question is not None and not is_confirmed(form, question):
            return ask(request, caller, question)
        status = await run_in_threadpool(service.run, caller, job)
    except JobNotFound:
        raise
    except HeadraceError as error:
        return await run_in_threadpool(show_job, request, caller, job, refusal=error)
    return redirect(f"../../runs/{status.run.id}")


def _ask_before_repetition(last: JobRun | None) -> Question | None:
    """Return what a page asks before a time runs again; None: no statement of it was submitted.

    Args:
        last: The last run of the time.
    """
    if last is None or last.state not in RUN.terminal or last.state is RunState.SKIPPED:
        return None
    loss = (
        f"The last run of this time is {last.state}. A new run submits its statements again: those"
        " that append write their rows a second time."
    )
    return Question(
        f"Run {last.name} again for {show_local(last.times)}?",
        [loss],
        "Run it again",
        f"../{last.job_id}",
        last.repetition + 1,
        keep="No, leave it",
    )


@dataclass(frozen=True, slots=True)
class BackfillForm:
    """The fields of the form that starts a backfill."""

    start: datetime
    end: datetime
    parallel: int

    @property
    def fields(self) -> dict[str, str]:
        """The fields, as a confirmation sends them again."""
        return {
            "from": self.start.isoformat(),
            "to": self.end.isoformat(),
            "parallel": str(self.parallel),
        }


@router.post("/jobs/{job}/backfill")
async def backfill_job_from_page(request: Request, caller: Authenticated, job: JobPath) -> Response:
    """Run a job for the intervals of a time, and show the backfill. Show the plan before."""
    form = await read_form(request)
    try:
        backfill = await run_in_threadpool(_plan_or_start, request, caller, job, form)
    except JobNotFound:
        raise
    except HeadraceError as error:
        return await run_in_threadpool(show_job, request, caller, job, refusal=error)
    return backfill


def _plan_or_start(request: Request, caller: Caller, job: str, form: Mapping[str, str]) -> Response:
    service = node_of(request).job_runs
    found = service.get_schedule(caller, job)
    if found is None:
        raise JobStateConflict("The job is a stream, which has no runs.")
    wanted = read_backfill_form(form, found.schedule)
    plan = service.backfill(
        caller, job, wanted.start, wanted.end, parallel=wanted.parallel, dry_run=True
    )
    question = _describe_plan(found.schedule, wanted, plan)
    if not question.count:
        raise InvalidRequest("No interval of the schedule within these times can run.")
    if not is_confirmed(form, question):
        return ask(request, caller, question)
    started = service.backfill(caller, job, wanted.start, wanted.end, parallel=wanted.parallel)
    return redirect(f"../../backfills/{started.id}")


def read_backfill_form(form: Mapping[str, str], schedule: JobSchedule) -> BackfillForm:
    """Return the fields of a form. Times without an offset are in the zone of the schedule.

    Raise InvalidRequest.
    """
    parallel = form.get("parallel", "1")
    if not (parallel.isascii() and parallel.isdigit() and len(parallel) <= _MAX_PARALLEL_DIGITS):
        raise InvalidRequest("parallel: It is the number of runs at the same time.")
    rule = schedule.rules.schedule
    times = []
    for name in ("from", "to"):
        try:
            instant = datetime.fromisoformat(form.get(name, ""))
            if instant.tzinfo is None:
                instant = instant.replace(tzinfo=UTC if rule is None else rule.zone)
            times.append(instant.astimezone(UTC))
        except (ValueError, OverflowError, LookupError) as error:
            raise InvalidRequest(f"{name}: It is a time such as 2026-01-05T00:00.") from error
    return BackfillForm(times[0], times[1], int(parallel))


def _describe_plan(schedule: JobSchedule, wanted: BackfillForm, plan: Backfill) -> Question:
    """Return what a page asks before a backfill: its intervals, and which of them run again."""
    runs = [each for each in plan.intervals if each.refusal is None]
    again = sum(each.state is RunState.SUCCEEDED for each in runs)
    texts = [f"{describe_count(len(runs), 'run')}, at most {wanted.parallel:,} at the same time."]
    if again:
        texts.append(
            f"{again:,} of them have succeeded before: statements that append write their rows a"
            " second time."
        )
    for each in plan.intervals[:_LISTED_INTERVALS]:
        state = f"left out, because {each.refusal}" if each.refusal else each.state or "new"
        texts.append(f"{each.start:%Y-%m-%d %H:%M:%S} to {each.end:%Y-%m-%d %H:%M:%S} UTC: {state}")
    further = len(plan.intervals) - _LISTED_INTERVALS
    if further > 0:
        texts.append(f"And {describe_count(further, 'further interval')}.")
    return Question(
        f"Run {schedule.name} for these intervals?",
        texts,
        "Start the backfill",
        f"../{schedule.job_id}",
        len(runs),
        wanted.fields,
        keep="No, leave it",
    )
