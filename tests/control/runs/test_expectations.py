"""Expectations of runs in a node: what drivers report is checked, stored and shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.control.runs.test_runs import BatchJob, start_job
from tests.support.made_results import inline_result
from tests.support.table_transactions import STAGED
from tests.support.waiting import wait_until

from headrace.model.expectation import Expectation, ExpectationCounts, OnViolation, Violations
from headrace.model.failure import Failure
from headrace.model.ids import new_id
from headrace.model.lifecycle import TransactionState
from headrace.model.run import BatchStatement, RunRetries

__all__ = ["start_job"]
POSITIVE = Expectation(name="positive", condition="a > 0", on_violation=OnViolation.DROP)
NAMED = Expectation(name="named", condition="b IS NOT NULL")
RESULT = inline_result([("a", "integer")], [])
VIOLATED = Failure(code="expectation_failed", message="`positive` by 3 of 10 rows.")


def make_counts(**values: Any) -> ExpectationCounts:
    violations = [
        Violations(name="positive", violations=3, nulls=1),
        Violations(name="named", violations=0, nulls=0),
    ]
    counts = {"rows_in": 10, "rows_dropped": 3, "rows_written": 7, "expectations": violations}
    return ExpectationCounts.model_validate(counts | values)


@pytest.fixture
def job(start_job: Callable[..., BatchJob]) -> BatchJob:
    statement = BatchStatement(text="INSERT INTO t SELECT 1", expectations=[POSITIVE, NAMED])
    return start_job(statements=[statement], retries=RunRetries(max_attempts=0))


def start_run(job: BatchJob) -> str:
    run_id = str(job.call("jobs/load/runs")["id"])
    job.next_statement()
    return run_id


def list_checks(job: BatchJob) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = job.node.http.get("/api/v1/jobs/load/expectations").json()[
        "items"
    ]
    return items


def test_counts_are_shown_in_the_run_in_the_last_results_and_as_metrics(job: BatchJob) -> None:
    run_id = start_run(job)
    [waiting] = list_checks(job)
    assert {each["result"] for each in waiting["checks"]["expectations"]} == {"unknown"}
    job.driver.succeed(RESULT, expectation_counts=make_counts(), rows_written=7)
    ended = job.await_end(run_id)
    assert ended["state"] == "succeeded"
    [statement] = ended["statements"]
    assert statement["checks"] == {
        "rows_in": 10,
        "rows_dropped": 3,
        "rows_written": 7,
        "expectations": [
            {
                "name": "positive",
                "condition": "a > 0",
                "on_violation": "drop",
                "result": "violated",
                "violations": 3,
                "nulls": 1,
            },
            {
                "name": "named",
                "condition": "b IS NOT NULL",
                "on_violation": "warn",
                "result": "passed",
                "violations": 0,
                "nulls": 0,
            },
        ],
    }
    again = start_run(job)
    none = [
        each.model_copy(update={"violations": 0, "nulls": 0}) for each in make_counts().expectations
    ]
    empty = make_counts(rows_in=0, rows_dropped=0, rows_written=0, expectations=none)
    job.driver.succeed(RESULT, expectation_counts=empty)
    job.await_end(again)
    page = job.node.http.get(f"/ui/jobs/{job.id}").text
    assert "<code>a &gt; 0</code>" in page
    assert "no rows" in page
    newest, oldest = list_checks(job)
    assert (newest["run"], oldest["run"]) == (again, run_id)
    assert {each["result"] for each in newest["checks"]["expectations"]} == {"no_rows"}
    metrics = job.node.http.get("/metrics").text
    labels = f'expectation="positive",job="load",outcome="null",owner="{ended["owner"]}"'
    assert f"headrace_expectation_rows_total{{{labels}}} 1.0" in metrics


def test_a_violated_expectation_fails_the_run_without_another_attempt(
    start_job: Callable[..., BatchJob],
) -> None:
    statement = BatchStatement(text="INSERT INTO t SELECT 1", expectations=[POSITIVE, NAMED])
    job = start_job(statements=[statement])
    run_id = start_run(job)
    job.driver.fail(VIOLATED, expectation_counts=make_counts(rows_written=None))
    ended = job.await_end(run_id)
    assert (ended["state"], ended["attempt"]) == ("failed", 1)
    assert ended["failure"]["code"] == "expectation_failed"
    [checked] = list_checks(job)
    assert checked["checks"]["rows_written"] is None
    assert checked["checks"]["expectations"][0]["violations"] == 3


@pytest.mark.parametrize(
    "reported",
    [
        {},
        {"expectation_counts": make_counts(), "rows_written": 8},
        {"expectation_counts": make_counts(expectations=make_counts().expectations[:1])},
    ],
    ids=["none", "other-rows", "other-names"],
)
def test_a_success_without_sound_counts_never_passes(
    job: BatchJob, reported: dict[str, Any]
) -> None:
    run_id = start_run(job)
    job.driver.succeed(RESULT, **reported)
    ended = job.await_end(run_id)
    assert (ended["state"], ended["failure"]["code"]) == ("failed", "expectations_unknown")
    # The rows are in the table: to write them again is no repair.
    refused = job.call(f"runs/{run_id}/repair", 409)
    assert "has written all its rows" in refused["detail"]


def test_the_journal_keeps_counts_for_the_driver_that_completes_the_write(job: BatchJob) -> None:
    run_id = start_run(job)
    statement, link, transaction = job.driver.statement, job.driver.link, new_id("tx")
    link.transact(transaction, statement, TransactionState.PREPARED, STAGED)
    link.transact(transaction, statement, TransactionState.BEGUN)
    staged = STAGED.model_copy(update={"expectation_counts": make_counts()})
    assert link.transact(transaction, statement, TransactionState.COMMITTING, staged).applied
    # The driver that completes it has not counted anything.
    job.driver.succeed(RESULT, committed=transaction)
    ended = job.await_end(run_id)
    assert ended["state"] == "succeeded"
    assert ended["statements"][0]["checks"]["rows_written"] == 7


def test_a_driver_that_knows_no_expectations_writes_nothing(job: BatchJob) -> None:
    first = start_run(job)
    job.driver.succeed(RESULT, expectation_counts=make_counts())
    job.await_end(first)
    job.driver.link.checks_rows = False
    run_id = str(job.call("jobs/load/runs")["id"])

    def has_ended() -> bool:
        assert job.driver.link.poll().assignment is None
        return job.get(run_id)["ended_at"] is not None

    wait_until(has_ended)
    ended = job.get(run_id)
    assert (ended["state"], ended["failure"]["code"]) == ("failed", "upgrade_unfinished")
    assert "does not know expectations" in ended["failure"]["message"]


def test_the_results_of_a_job_that_does_not_exist_are_not_found(job: BatchJob) -> None:
    answer = job.node.http.get("/api/v1/jobs/other/expectations")
    assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
