"""The pages of jobs."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from headrace.control.jobs.service import JobStatus
from headrace.control.node import Node
from headrace.control.policy import Action, Caller, may, visible_owners
from headrace.control.runs.schedule_status import RunGap, ScheduleStatus, list_strip
from headrace.deploy.schedule import describe_schedule
from headrace.errors import HeadraceError, InvalidRequest
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.serializers import job_body
from headrace.frontends.web.forms import read_form
from headrace.frontends.web.rendering import (
    Question,
    ask,
    copy_object,
    is_confirmed,
    make_router,
    redirect,
    render,
    show_json,
)
from headrace.frontends.web.statement_pages import ALL
from headrace.grammar.masking import mask_urls
from headrace.model.deployment import JobVersion
from headrace.model.lifecycle import JobState, RunState
from headrace.model.run import JobRun
from headrace.text.readable import describe_count

_VERSIONS = 50
_CHECKED = 3
"""Statements whose expectations the page of a job shows."""
_MAX_VERSION = 10**9

router = make_router()

JobPath = Annotated[str, Path(max_length=100)]
Revision = Annotated[str, Query(pattern=r"^[0-9]{1,9}\.[0-9]{1,9}$")]
"""Number of a version with that of its revision, which `1.2` names."""


class JobPageAction(StrEnum):
    """What a page offers to do with a job."""

    SAVEPOINT = "savepoint"
    STOP = "stop"
    START = "start"
    ROLLBACK = "rollback"  # to a version


_ACTIONS: dict[JobState, Sequence[JobPageAction]] = {
    JobState.RUNNING: (JobPageAction.SAVEPOINT, JobPageAction.STOP),
    JobState.STOPPED: (JobPageAction.START,),
    JobState.FAILED: (JobPageAction.START,),
}
_STREAM_TEXTS = {
    JobPageAction.SAVEPOINT: "Take a savepoint",
    JobPageAction.STOP: "Stop with a savepoint",
    JobPageAction.START: "Start from the latest state",
}
_BATCH_TEXTS = {
    JobPageAction.STOP: "Pause the schedule",
    JobPageAction.START: "Continue the schedule",
}
_ROLLED_BACK = frozenset(_ACTIONS)
"""States in which a job can return to an earlier version."""


@router.get("/jobs")
def render_jobs(request: Request, caller: Authenticated, owner: str = "mine") -> Response:
    """List all jobs by name."""
    return render(
        request,
        "jobs.html",
        caller=caller,
        now=node_of(request).read_clock(),
        jobs=node_of(request).jobs.list_jobs(caller, all_owners=owner == ALL),
        owner=owner,
        sees_others=visible_owners(caller) is None,
    )


@router.get("/jobs/{job}")
@router.get("/jobs/{job}/stop")
@router.get("/jobs/{job}/start")
@router.get("/jobs/{job}/savepoint")
@router.get("/jobs/{job}/rollback")
@router.get("/jobs/{job}/run")
@router.get("/jobs/{job}/backfill")
def render_job(request: Request, caller: Authenticated, job: JobPath) -> Response:
    """Show a job: its queries, its versions with decision and reason, and its savepoints."""
    return show_job(request, caller, job)


def show_job(
    request: Request, caller: Caller, job: str, refusal: HeadraceError | None = None
) -> Response:
    """Return the page of a job, with the reason for which an action was refused."""
    jobs = node_of(request).jobs
    status = jobs.get_job(caller, job)
    versions = jobs.list_versions(caller, status.job.id, _VERSIONS)
    standing = node_of(request).job_runs.get_schedule(caller, status.job.id)
    may_change = status.job.change_id is None and may(caller, Action.CHANGE, status.job)
    return render(
        request,
        "job.html",
        caller=caller,
        now=node_of(request).read_clock(),
        refusal=refusal,
        status=status,
        job=status.job,
        versions=versions,
        checked=node_of(request).job_runs.check(caller, status.job.id, limit=_CHECKED),
        checked_stream=node_of(request).job_runs.check_stream(caller, status.job.id),
        plan=jobs.find_todays_plan(caller, status.job.id),
        actions=_list_actions(status, standing) if may_change else (),
        action_texts=_STREAM_TEXTS if standing is None else _BATCH_TEXTS,
        standing=standing,
        strip=[] if standing is None else draw_strip(standing.last_runs),
        schedule_text="" if standing is None else _describe_schedule(standing),
        zone="" if standing is None else _find_zone(standing),
        may_run=may(caller, Action.CHANGE, status.job),
        may_roll_back=may_change and status.job.state in _ROLLED_BACK,
        state_location=mask_urls(status.job.state_location),
        copies=copy_object(f"jobs/{status.job.id}", f"headrace job show {status.job.id}"),
    )


def _list_actions(status: JobStatus, standing: ScheduleStatus | None) -> Sequence[JobPageAction]:
    offered = _ACTIONS.get(status.job.state, ())
    if standing is None:
        return offered
    return [each for each in offered if each is not JobPageAction.SAVEPOINT]


def _describe_schedule(standing: ScheduleStatus) -> str:
    return describe_schedule(standing.schedule.rules.schedule)


def _find_zone(standing: ScheduleStatus) -> str:
    """Return the zone in which a form of the job reads times."""
    rule = standing.schedule.rules.schedule
    return "UTC" if rule is None or rule.timezone is None else rule.timezone


@dataclass(frozen=True, slots=True)
class StripCell:
    """A logical time in the strip of the last runs, or a gap between two of them."""

    state: str
    text: str
    run_id: str | None
    """None: no run covers this time."""


def draw_strip(found: Sequence[JobRun]) -> list[StripCell]:
    """Return a cell for each logical time of the last runs, and for each gap between them."""
    cells = []
    for each in list_strip(found):
        if isinstance(each, RunGap):
            text = f"No run covers {_format(each.start)} to {_format(each.end)}"
            cells.append(StripCell("gap", text, None))
        else:
            text = f"{_format(each.times.logical_time)}: {each.state}"
            if each.state is RunState.SKIPPED:
                text += f". {each.reason}"
            cells.append(StripCell(each.state, text, each.id))
    return cells


def _format(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC"


@router.get("/jobs/{job}/json")
def show_job_as_json(request: Request, caller: Authenticated, job: JobPath) -> Response:
    """Show a job as the API does."""
    node = node_of(request)
    status = node.jobs.get_job(caller, job)
    return show_json(job_body(status, node.job_runs.get_queue(caller, status.job.id)))


@router.get("/jobs/{job}/diff")
def render_diff(
    request: Request,
    caller: Authenticated,
    job: JobPath,
    old: Revision,
    new: Revision,
) -> Response:
    """Show how the manifests of two revisions differ."""
    jobs = node_of(request).jobs
    status = jobs.get_job(caller, job)
    versions = jobs.list_versions(caller, status.job.id, _VERSIONS)
    texts = [_find_manifest(versions, number) for number in (old, new)]
    missing = [number for number, text in zip((old, new), texts, strict=True) if text is None]
    return render(
        request,
        "diff.html",
        caller=caller,
        job=status.job,
        numbers=(old, new),
        missing=missing,
        lines=[] if missing else diff_lines(str(texts[0]), str(texts[1])),
    )


def diff_lines(old: str, new: str) -> list[str]:
    """Return the lines of a unified diff, without its header; none for equal texts."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=3)
    return list(lines)[2:]


def _find_manifest(versions: Sequence[JobVersion], number: str) -> str | None:
    """Return the manifest of a revision; None: it is not kept."""
    found = [each.spec.text for each in versions if f"{each.version}.{each.revision}" == number]
    return found[0] if found else None


@router.post("/jobs/{job}/{action}")
async def act_on_job_from_page(
    request: Request, caller: Authenticated, job: JobPath, action: JobPageAction
) -> Response:
    """Begin an action on a job, and show the job, which follows it.

    Ask before a stop and before a return to an earlier version.
    """
    form = await read_form(request)
    version = None
    if action is JobPageAction.ROLLBACK:
        text = form.get("version", "")
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MAX_VERSION:
            raise InvalidRequest("version: It is the number of a version.")
        version = int(text)
    status = await run_in_threadpool(node_of(request).jobs.get_job, caller, job)
    question = _ask_before(status, action, version)
    if question is not None and not is_confirmed(form, question):
        return ask(request, caller, question)
    job_id = status.job.id
    try:
        await run_in_threadpool(_act, node_of(request), caller, job_id, action, version)
    except HeadraceError as error:
        return await run_in_threadpool(show_job, request, caller, job_id, refusal=error)
    return redirect(f"../{job_id}")


def _ask_before(status: JobStatus, action: JobPageAction, version: int | None) -> Question | None:
    """Return what the page asks before an action; None: it asks nothing."""
    name, back = status.job.name, f"../{status.job.id}"
    running = describe_count(len(status.queries), "streaming query", "streaming queries")
    if action is JobPageAction.STOP:
        losses = [f"{running} of it will stop, with a savepoint."]
        if status.version is not None and status.version.spec.batch is not None:
            losses = ["Its schedule starts no runs until the job is started. Due runs still end."]
        return Question(f"Stop the job {name}?", losses, "Stop the job", back, len(status.queries))
    if action is JobPageAction.ROLLBACK:
        return Question(
            f"Roll the job {name} back to version {version}?",
            [f"{running} of it will stop, and that version takes their place."],
            "Roll back",
            back,
            len(status.queries),
            {"version": str(version)},
        )
    return None


def _act(
    node: Node, caller: Caller, job_id: str, action: JobPageAction, version: int | None
) -> None:
    """Begin an action."""
    jobs = node.jobs
    match action:
        case JobPageAction.SAVEPOINT:
            jobs.savepoint(caller, job_id)
        case JobPageAction.STOP:
            jobs.stop(caller, job_id)
        case JobPageAction.START:
            jobs.start(caller, job_id, clean=False)
        case JobPageAction.ROLLBACK:
            jobs.roll_back(caller, job_id, version)
