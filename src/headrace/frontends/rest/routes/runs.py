"""`/runs`, `/jobs/{name}/runs` and `/jobs/{name}/backfills`: the runs of batch jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AwareDatetime, Field

from headrace.control.runs.service import Backfill, PlannedInterval, RunStatus
from headrace.frontends.http.api_route import (
    AllOwners,
    ApiRoute,
    Before,
    Limit,
    json_response,
    split_page,
)
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT, LATER
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.routes.expectations import RowChecksBody, checks_body
from headrace.frontends.rest.routes.jobs import JobRef
from headrace.frontends.rest.schemas import (
    ErrorBody,
    Instant,
    Json,
    MaskedMessage,
    RequestModel,
    ResponseModel,
    has_examples,
)
from headrace.frontends.rest.serializers import error_body
from headrace.grammar.clauses import qualified_name_to_sql
from headrace.model.job import JobName
from headrace.model.lifecycle import RunState
from headrace.model.reasons import ReasonCode
from headrace.model.run import BatchTarget, RunTrigger, WriteMode

_RUN: Json = {
    "id": "rn_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "job": "load",
    "owner": "ada",
    "state": "succeeded",
    "trigger": "schedule",
    "backfill": None,
    "version": "jv_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
    "logical_time": AT,
    "interval_start": AT,
    "interval_end": AT,
    "zone": "Europe/Berlin",
    "utc_offset_seconds": 3600,
    "shifted": False,
    "tzdata": "2026.6",
    "inputs": [],
    "input_files": [],
    "repetition": 0,
    "attempt": 1,
    "due_at": AT,
    "late_seconds": 0.4,
    "reason": None,
    "reason_code": None,
    "failure": None,
    "created_at": AT,
    "started_at": AT,
    "ended_at": LATER,
    "statements": [],
}


class RunInputBody(ResponseModel):
    """What started a run: the run of a job that it follows, changes of a table, or new files."""

    job: str | None
    """Name of the job; null for a table and files."""
    run: str | None
    """Id of its run."""
    table: str | None
    """Name of the table; null for a run and files."""
    after_transaction: str | None
    """Last transaction on the table that an earlier run has used; null: there was none."""
    last_transaction: str | None
    """Last transaction on the table before the run."""
    location: str | None
    """Location of the files; null for a run and a table."""
    file_count: int | None
    """Number of the files."""


class RunStatementBody(ResponseModel):
    """A statement of a run."""

    attempt: int
    """Number of the attempt, from 1."""
    position: int
    """Position in the job, from 0."""
    statement: str
    """Id of the statement."""
    checks: RowChecksBody | None
    """What was counted for its expectations; null: it has none."""


@has_examples(_RUN)
class RunBody(ResponseModel):
    """The run of a job for one logical time."""

    id: str
    """Id of the run."""
    job: JobName
    """Name of the job."""
    owner: str
    """Owner of the job."""
    state: RunState | str
    """State of the run."""
    trigger: RunTrigger | str
    """Why it was due."""
    backfill: str | None
    """Id of the backfill to which it belongs."""
    version: str
    """Id of the version whose statements it runs."""
    logical_time: Instant
    """The time for which it runs: the value of `:run_time`."""
    interval_start: Instant
    """Begin of its interval: the value of `:interval_start`."""
    interval_end: Instant
    """End of its interval, which is not part of it: the value of `:interval_end`."""
    zone: str
    """Time zone of the schedule."""
    utc_offset_seconds: int
    """Offset of the zone at the logical time."""
    shifted: bool
    """Whether the clock skipped the time of the schedule on that day."""
    tzdata: str
    """Version of the time zone data with which the time was computed."""
    inputs: list[RunInputBody]
    """What started it; empty, unless a condition did."""
    input_files: list[str]
    """The files that it has to read: the value of `:input_files`; in a list of runs, empty."""
    repetition: int
    """0 for the first run of its logical time."""
    attempt: int
    """Number of its last attempt; 0: none has begun."""
    due_at: Instant
    """Time from which it, or its next attempt, may begin."""
    late_seconds: float | None
    """Time from `due_at` until its last attempt began, or until now while none has begun. null: it
    ended without an attempt, or waits for the next one."""
    reason: MaskedMessage | None
    """Why it has not ended, or has not succeeded, as a sentence."""
    reason_code: ReasonCode | str | None
    """Kind of the reason."""
    failure: ErrorBody | None
    """Why it, or its last attempt, has failed."""
    created_at: Instant
    """When it was inserted."""
    started_at: Instant | None
    """Begin of its last attempt."""
    ended_at: Instant | None
    """When it ended."""
    statements: list[RunStatementBody]
    """Statements of its attempts; in a list of runs, empty."""


@has_examples({"items": [_RUN], "next": None})
class RunPage(ResponseModel):
    """A page of runs."""

    items: list[RunBody]
    """The runs, newest first."""
    next: str | None
    """Value of `before` for the next page; null on the last page."""


@has_examples({"at": AT})
class RunRequest(RequestModel):
    """Body of `POST /jobs/{name}/runs`."""

    at: AwareDatetime | None = None
    """The logical time. Default: the last one of the schedule; now, if the job has none."""


@has_examples({"from": AT, "to": LATER, "parallel": 4, "dry_run": True})
class BackfillRequest(RequestModel):
    """Body of `POST /jobs/{name}/backfills`."""

    start: AwareDatetime = Field(alias="from")
    """Intervals begin from here on."""
    end: AwareDatetime = Field(alias="to")
    """Intervals end by here."""
    parallel: int = Field(default=1, ge=1, le=100)
    """Largest number of runs of the job at the same time."""
    dry_run: bool = False
    """Whether only the plan is returned."""


class IntervalBody(ResponseModel):
    """An interval of a backfill."""

    start: Instant
    """Begin of the interval."""
    end: Instant
    """End of the interval: the logical time of its run."""
    state: RunState | str | None
    """State of the last run of the interval; null: it has none."""
    refusal: str | None
    """Why the interval does not run; null: it runs."""


class BackfillTarget(ResponseModel):
    """The table that the runs of a backfill write to."""

    table: str
    """Name of the table, as SQL."""
    write: WriteMode | str
    """How its rows change: `append`, `overwrite-partitions` or `merge`."""
    merge_keys: list[str]
    """Columns by which a merge finds its rows."""
    partition_by: list[str]
    """Partition columns that the manifest names."""


@has_examples(
    {
        "id": None,
        "version": "jv_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
        "target": {
            "table": "`sales_by_day`",
            "write": "overwrite-partitions",
            "merge_keys": [],
            "partition_by": ["day"],
        },
        "partitions_query": "SELECT DISTINCT `day` FROM (\nSELECT 1 AS n\n) ORDER BY `day`",
        "intervals": [{"start": AT, "end": LATER, "state": "failed", "refusal": None}],
    }
)
class BackfillBody(ResponseModel):
    """A backfill, or the plan of one."""

    id: str | None
    """Id of the backfill; null for a plan."""
    version: str
    """Id of the version whose statements its runs run."""
    target: BackfillTarget | None
    """What its runs write to; null: the statements of a script say so."""
    partitions_query: MaskedMessage | None
    """Query for the partitions that the run of an interval would change, which are not known before
    its rows are read. Its parameters are those of the run. Null: no partition columns are known, or
    the job has a script or code."""
    intervals: list[IntervalBody]
    """Its intervals, in their order."""


@has_examples({"latest": False})
class RepairRequest(RequestModel):
    """Body of `POST /runs/{run}/repair`."""

    latest: bool = False
    """Whether to run the deployed version, and not that of the run."""


RunRef = Annotated[str, Path(max_length=100, description="Id of the run.")]
BackfillRef = Annotated[str, Path(max_length=100, description="Id of the backfill.")]

router = APIRouter(tags=["runs"], route_class=ApiRoute)


@router.get("/runs", response_model=RunPage, responses=problems(404))
def list_runs(
    request: Request,
    caller: Authenticated,
    job: Annotated[str | None, Query(max_length=100, description="name or id of the job")] = None,
    state: Annotated[RunState | None, Query(description="only runs in this state")] = None,
    before: Before = None,
    limit: Limit = 100,
    all_owners: AllOwners = False,
) -> Response:
    """List runs, newest first; the runs of a job by their logical times."""
    found = node_of(request).job_runs.page(
        caller,
        job=job,
        states=None if state is None else [state],
        before=before,
        limit=limit + 1,
        all_owners=all_owners,
    )
    bodies, next_ = split_page([run_body(status) for status in found], limit)
    return json_response(RunPage(items=list(bodies), next=next_))


@router.get("/runs/{run}", response_model=RunBody, responses=problems(404))
def show_run(request: Request, caller: Authenticated, run: RunRef) -> Response:
    """Show a run with its statements."""
    return json_response(run_body(node_of(request).job_runs.get(caller, run)))


@router.post(
    "/runs/{run}/cancel", status_code=202, response_model=RunBody, responses=problems(404, 409)
)
def cancel_run(request: Request, caller: Authenticated, run: RunRef) -> Response:
    """Ask for the end of a run. Its statement is cancelled."""
    return json_response(run_body(node_of(request).job_runs.cancel(caller, run)), 202)


@router.post(
    "/runs/{run}/repair",
    status_code=201,
    response_model=RunBody,
    responses=problems(404, 409, 415),
)
def repair_run(
    request: Request, caller: Authenticated, run: RunRef, body: RepairRequest
) -> Response:
    """Run what has failed in a run again, with its times."""
    status = node_of(request).job_runs.repair(caller, run, latest=body.latest)
    return json_response(run_body(status), 201)


@router.post(
    "/jobs/{name}/runs",
    status_code=201,
    response_model=RunBody,
    responses=problems(404, 409, 415),
)
def run_job(request: Request, caller: Authenticated, name: JobRef, body: RunRequest) -> Response:
    """Run a batch job for a logical time."""
    at = None if body.at is None else _to_utc(body.at)
    return json_response(run_body(node_of(request).job_runs.run(caller, name, at)), 201)


@router.post(
    "/jobs/{name}/backfills",
    status_code=201,
    response_model=BackfillBody,
    responses=problems(404, 409, 415),
)
def backfill_job(
    request: Request, caller: Authenticated, name: JobRef, body: BackfillRequest
) -> Response:
    """Run a batch job for all intervals of a time, or plan it."""
    found = node_of(request).job_runs.backfill(
        caller,
        name,
        _to_utc(body.start),
        _to_utc(body.end),
        parallel=body.parallel,
        dry_run=body.dry_run,
    )
    return json_response(_backfill_body(found), 201)


@router.post(
    "/backfills/{backfill}/cancel",
    status_code=202,
    response_model=RunPage,
    responses=problems(404, 409),
)
def cancel_backfill(request: Request, caller: Authenticated, backfill: BackfillRef) -> Response:
    """Ask for the end of all runs of a backfill. None of them starts afterwards."""
    found = node_of(request).job_runs.cancel_backfill(caller, backfill)
    return json_response(RunPage(items=[run_body(each) for each in found], next=None), 202)


def _to_utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)


def run_body(status: RunStatus) -> RunBody:
    """Return the body for a run."""
    run, reason = status.run, status.reason
    checks = {each.statement_id: checks_body(each) for each in status.checks}
    return RunBody(
        id=run.id,
        job=run.name,
        owner=run.owner,
        state=run.state,
        trigger=run.trigger,
        backfill=run.backfill_id,
        version=run.version_id,
        logical_time=run.times.logical_time,
        interval_start=run.times.interval_start,
        interval_end=run.times.interval_end,
        zone=run.times.zone,
        utc_offset_seconds=run.times.utc_offset,
        shifted=run.times.is_shifted,
        tzdata=run.times.tzdata,
        inputs=[RunInputBody(**each.model_dump()) for each in run.inputs],
        input_files=status.files,
        repetition=run.repetition,
        attempt=run.attempt,
        due_at=run.due_at,
        late_seconds=status.late_seconds,
        reason=None if reason is None else reason.text,
        reason_code=None if reason is None else reason.code,
        failure=error_body(run.failure),
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        statements=[
            RunStatementBody(
                attempt=each.attempt,
                position=each.position,
                statement=each.statement_id,
                checks=checks.get(each.statement_id),
            )
            for each in status.statements
        ],
    )


def _backfill_body(found: Backfill) -> BackfillBody:
    return BackfillBody(
        id=found.id,
        version=found.version_id,
        target=None if found.target is None else _target_body(found.target),
        partitions_query=found.partitions_query,
        intervals=[_interval_body(interval) for interval in found.intervals],
    )


def _target_body(target: BatchTarget) -> BackfillTarget:
    return BackfillTarget(
        table=qualified_name_to_sql(target.name),
        write=target.write,
        merge_keys=list(target.merge_keys),
        partition_by=list(target.partition_by),
    )


def _interval_body(interval: PlannedInterval) -> IntervalBody:
    return IntervalBody(
        start=interval.start, end=interval.end, state=interval.state, refusal=interval.refusal
    )
