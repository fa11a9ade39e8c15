"""Why runs have not ended or not succeeded, and how late they began."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.batch_jobs import FIRST, BatchJob, insert_batch_job, make_daily
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import StartNode
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.run import FiringRules, RunRetries
from headrace.model.schedule import Schedule
from headrace.store.clock import read_clock


@pytest.fixture
def start_job(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> Callable[..., BatchJob]:
    monkeypatch.setattr("headrace.control.runs.steps._POLL_SECONDS", (0.01, 0.02))
    return lambda **batch: BatchJob(start_node(), **batch)


def test_a_run_says_what_it_waits_for(start_job: Callable[..., BatchJob]) -> None:
    slow = RunRetries(max_attempts=2, min_backoff=timedelta(minutes=5), random_factor=0)
    job = start_job(retries=slow)
    first = job.call("jobs/load/runs", at="2026-01-05T01:00:00Z")["id"]
    second = job.call("jobs/load/runs", at="2026-01-05T02:00:00Z")["id"]

    def read(run_id: str) -> tuple[str, str]:
        # The list says the same as the run.
        listed = job.node.http.get("/api/v1/runs", params={"job": "load"}).json()["items"]
        [found] = [each for each in listed if each["id"] == run_id]
        return str(found["reason_code"]), str(found["reason"])

    assert read(second) == ("run_before", f"It waits for the run {first} of its job.")
    wait_until(lambda: read(first)[1].endswith("Its session starts its driver."))
    code, reason = read(first)
    [statement] = job.get(first)["statements"]
    assert code == "statement"
    # The reason is that of the statement, whose driver has not connected.
    waits = job.node.statement(statement["statement"])["reason"]
    assert reason == f"Statement {statement['statement']} is waiting: {waits}"
    assert job.next_statement() == FIRST
    job.driver.fail(Failure(code="spark_error", message="The executor was lost."))
    wait_until(lambda: read(first)[0] == "retry")
    assert read(first)[1].startswith("Attempt 2 of 3 in ")
    assert read(first)[1].endswith(": The executor was lost.")
    assert job.get(first)["reason_code"] == "retry"


def test_a_run_says_how_late_its_attempt_began(start_job: Callable[..., BatchJob]) -> None:
    job = start_job()
    first = job.call("jobs/load/runs", at="2026-01-05T01:00:00Z")["id"]
    waiting = job.call("jobs/load/runs", at="2026-01-05T02:00:00Z")["id"]
    wait_until(lambda: job.get(first)["started_at"] is not None)
    begun = job.get(first)
    assert 0 <= begun["late_seconds"] < 60
    # One that has not begun is later with each look, and one that never began is not late.
    before = job.get(waiting)["late_seconds"]
    wait_until(lambda: job.get(waiting)["late_seconds"] > before)
    ended = job.call(f"runs/{waiting}/cancel", 202)
    assert (ended["state"], ended["late_seconds"]) == ("cancelled", None)
    assert job.get(first)["late_seconds"] == begun["late_seconds"]


def test_a_time_that_waits_for_conditions_says_for_which(
    start_job: Callable[..., BatchJob],
) -> None:
    node = start_job().node
    with node.database.read() as tx:
        cron, last = make_daily(read_clock(tx.connection))
    parts = [{"cron": cron}, {"after": ["load"]}, {"on-change": ["d.t"]}]
    rules = FiringRules(schedule=Schedule.model_validate({"all": parts}))
    cursor = last - timedelta(days=1)
    insert_batch_job(node.database, rules, cursor=cursor, name="report", owner=LOCAL_CALLER.owner)

    def list_runs() -> Any:
        return node.http.get("/api/v1/runs", params={"job": "report"}).json()["items"]

    wait_until(list_runs)
    [run] = list_runs()
    text = "It waits for a run of load and a change of d.t."
    assert (run["state"], run["reason_code"], run["reason"]) == ("due", "conditions", text)
    assert node.http.get(f"/api/v1/runs/{run['id']}").json()["reason"] == text
    assert text in node.http.get(f"/ui/runs/{run['id']}").text
    cancelled = node.http.post(f"/api/v1/runs/{run['id']}/cancel").json()
    assert cancelled["state"] == "cancelled"
    again = node.http.post("/api/v1/jobs/report/runs", json={"at": run["logical_time"]}).json()
    assert (again["repetition"], again["interval_start"]) == (1, run["interval_start"])
