"""`/jobs/{name}/expectations`: what runs and streams have counted for their expectations."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.control.runs.service import CheckedStatement
from headrace.frontends.http.api_route import ApiRoute, Limit, json_response
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.rest.examples import AT
from headrace.frontends.rest.problems import problems
from headrace.frontends.rest.routes.jobs import JobRef
from headrace.frontends.rest.schemas import (
    ErrorBody,
    Instant,
    Json,
    ResponseModel,
    has_examples,
)
from headrace.frontends.rest.serializers import error_body
from headrace.model.expectation import CheckedRows, ExpectationResult, OnViolation
from headrace.model.lifecycle import RunState, StreamState
from headrace.model.stream_expectation import StreamChecks

_CHECKS: Json = {
    "rows_in": 10,
    "rows_dropped": 3,
    "rows_written": 7,
    "expectations": [
        {
            "name": "positive",
            "condition": "amount > 0",
            "on_violation": "drop",
            "result": "violated",
            "violations": 3,
            "nulls": 1,
        }
    ],
}


class ExpectationBody(ResponseModel):
    """An expectation, and what was counted for it."""

    name: str
    """Name of the expectation."""
    condition: str
    """The condition on each row."""
    on_violation: OnViolation | str
    """What happens to a row that violates it."""
    result: ExpectationResult | str
    """What the counts say. `unknown`: nothing is counted, or not yet."""
    violations: int | None
    """Rows for which the condition is FALSE or NULL; null: not known."""
    nulls: int | None
    """Rows for which it is NULL."""


class RowChecksBody(ResponseModel):
    """Rows with expectations. Every expectation is counted on every row."""

    rows_in: int | None
    """Rows of the query; null: not known."""
    rows_dropped: int | None
    """Rows that were left out."""
    rows_written: int | None
    """Rows that were written; null also for a statement that has failed and published nothing."""
    expectations: list[ExpectationBody]
    """The expectations, in the order of the manifest."""


class CheckedStatementBody(ResponseModel):
    """A statement with expectations, and its run."""

    run: str
    """Id of the run."""
    statement: str
    """Id of the statement."""
    logical_time: Instant
    """The time for which the run is."""
    state: RunState | str
    """State of the run."""
    failure: ErrorBody | None
    """Why the run, or its last attempt, has failed."""
    checks: RowChecksBody
    """What was counted."""


class StreamChecksBody(ResponseModel):
    """The streaming query of a job, and what its batches have counted since its version started."""

    query: str
    """Id of the query."""
    state: StreamState | str
    """State of the query."""
    failure: ErrorBody | None
    """Why the query has failed."""
    last_batch: int | None
    """Number of the last batch; null: no batch is known yet."""
    batches: int
    """Number of the batches whose counts are known."""
    unknown_batches: int
    """Number of the batches whose counts are not known."""
    total: RowChecksBody
    """What all batches have counted."""
    last: RowChecksBody
    """What the last batch has counted."""


@has_examples(
    {
        "items": [
            {
                "run": "rn_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
                "statement": "st_0193f4a8c2d17b3e9f60a1b2c3d4e5f6",
                "logical_time": AT,
                "state": "succeeded",
                "failure": None,
                "checks": _CHECKS,
            }
        ],
        "stream": None,
    }
)
class ExpectationPage(ResponseModel):
    """What was counted for the expectations of a job."""

    items: list[CheckedStatementBody]
    """The last statements of a batch job that have expectations, newest first."""
    stream: StreamChecksBody | None
    """The query of a streaming job; null for a batch job, and for a job without expectations."""


router = APIRouter(route_class=ApiRoute, tags=["runs"])


@router.get(
    "/jobs/{name}/expectations", response_model=ExpectationPage, responses=problems(404, 409)
)
def list_expectations(
    request: Request, caller: Authenticated, name: JobRef, limit: Limit = 10
) -> Response:
    """List what the last runs of a batch job, or the batches of a stream, have counted."""
    service = node_of(request).job_runs
    found, stream = service.check(caller, name, limit=limit), service.check_stream(caller, name)
    return json_response(
        ExpectationPage(
            items=[_checked_body(each) for each in found],
            stream=None if stream is None else _stream_body(stream),
        )
    )


def checks_body(checks: CheckedRows) -> RowChecksBody:
    """Return the body for the expectations of a statement or of batches."""
    counts = checks.counts
    violations = [None] * len(checks.expectations) if counts is None else counts.expectations
    return RowChecksBody(
        rows_in=None if counts is None else counts.rows_in,
        rows_dropped=None if counts is None else counts.rows_dropped,
        rows_written=None if counts is None else counts.rows_written,
        expectations=[
            ExpectationBody(
                name=each.name,
                condition=each.condition,
                on_violation=each.on_violation,
                result=checks.find_result(index),
                violations=None if counted is None else counted.violations,
                nulls=None if counted is None else counted.nulls,
            )
            for index, (each, counted) in enumerate(
                zip(checks.expectations, violations, strict=True)
            )
        ],
    )


def _checked_body(found: CheckedStatement) -> CheckedStatementBody:
    return CheckedStatementBody(
        run=found.run.id,
        statement=found.checks.statement_id,
        logical_time=found.run.times.logical_time,
        state=found.run.state,
        failure=error_body(found.run.failure),
        checks=checks_body(found.checks),
    )


def _stream_body(checks: StreamChecks) -> StreamChecksBody:
    query, counts = checks.query, checks.counts
    return StreamChecksBody(
        query=query.id,
        state=query.state,
        failure=error_body(query.last_error),
        last_batch=None if counts is None else counts.last_batch,
        batches=0 if counts is None else counts.batches,
        unknown_batches=0 if counts is None else counts.unknown_batches,
        total=checks_body(checks.total),
        last=checks_body(checks.last),
    )
