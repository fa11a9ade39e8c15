"""Runs of batch jobs in a node: their statements, attempts, repairs and backfills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update
from tests.support.batch_jobs import FIRST, SECOND, BatchJob, insert_batch_job, make_daily
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import StartNode
from tests.support.waiting import wait_until

from headrace.control.context import NodeContext
from headrace.control.jobs.batch_plans import stop_schedule
from headrace.control.jobs.trigger_checks import list_sources
from headrace.model.failure import Failure
from headrace.model.job_messages import BindRows
from headrace.model.lifecycle import RunState, TransactionState
from headrace.model.run import (
    BatchStatement,
    FiringRules,
    ResumeAt,
    RunRetries,
    RunTimes,
    RunTrigger,
)
from headrace.model.schedule import Schedule
from headrace.store import tables
from headrace.store.clock import clock, read_clock
from headrace.store.jobs import jobs, runs, triggers
from headrace.store.sessions import connections
from headrace.store.tables import job_schedules

LOST = Failure(code="spark_error", message="The executor was lost.")
WRONG = Failure(code="spark_error", message="There is no such table.", sqlstate="42P01")
_OF_RUNS = ("schedule.", "operation.", "run.", "jobs.")
"""Beginnings of the names of the transactions of schedules and runs."""


class IdleConditions:
    """Conditions that no sweep looks at."""

    def __init__(self, _context: NodeContext) -> None:
        pass

    def run(self) -> None:
        """Start no run."""


@pytest.fixture
def start_job(start_node: StartNode, monkeypatch: pytest.MonkeyPatch) -> Callable[..., BatchJob]:
    monkeypatch.setattr("headrace.control.runs.steps._POLL_SECONDS", (0.01, 0.02))
    monkeypatch.setattr("headrace.control.runs.steps._LONGEST_WAIT", 0.02)
    return lambda **batch: BatchJob(start_node(), **batch)


def test_the_statements_of_a_run_follow_each_other_in_one_connection_with_typed_parameters(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job()
    run = job.call("jobs/load/runs")
    assert (run["state"], run["trigger"], run["repetition"]) == ("due", "user", 0)
    assert job.next_statement() == FIRST
    first = job.read_statement()
    values = {each.name: (each.type, each.value) for each in first.spec.parameters}
    start = run["interval_start"].replace(".000000Z", "+00:00")
    assert values["interval_start"] == ("TIMESTAMP", start)
    assert values["run_id"] == ("STRING", run["id"])
    job.succeed()
    assert job.next_statement() == SECOND
    second = job.read_statement()
    assert second.connection_id == first.connection_id is not None
    job.succeed()
    ended = job.await_end(run["id"])
    assert (ended["state"], ended["attempt"], ended["failure"]) == ("succeeded", 1, None)
    assert [each["statement"] for each in ended["statements"]] == [first.id, second.id]
    with job.node.database.read() as tx:
        connection = connections.get(tx, str(first.connection_id))
    assert connection is not None
    assert connection.ended_at is not None


def test_a_run_that_refreshes_a_missing_view_fails_at_once(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job(statements=[BatchStatement(text="REFRESH MATERIALIZED VIEW missing")])
    ended = job.await_end(job.call("jobs/load/runs")["id"])
    assert (ended["state"], ended["attempt"]) == ("failed", 1)
    assert ended["failure"]["code"] == "materialized_view_not_found"


def test_the_end_of_a_statement_wakes_its_run(
    start_job: Callable[..., BatchJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start_job()
    monkeypatch.setattr("headrace.control.runs.steps._POLL_SECONDS", (600.0, 600.0))
    run = job.call("jobs/load/runs")
    for text in (FIRST, SECOND):
        assert job.next_statement() == text
        job.succeed()
    assert job.await_end(run["id"])["state"] == "succeeded"


def test_the_end_of_a_run_starts_the_jobs_that_follow_it_before_the_next_sweep(
    start_job: Callable[..., BatchJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.control.node.Conditions", IdleConditions)
    job = start_job(statements=[BatchStatement(text=FIRST)])
    rules = FiringRules(schedule=Schedule(after=["load"]))
    database, owner = job.node.database, LOCAL_CALLER.owner
    with database.read() as tx:
        now = read_clock(tx.connection)
    job_id = insert_batch_job(database, rules, cursor=now, name="clean", owner=owner)
    sources = list_sources(Schedule(after=["load"]))
    with database.write("test") as tx:
        triggers.save(tx, job_id, owner=owner, sources=sources, keeps=False)
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == FIRST
    job.succeed()
    assert job.next_statement() == "SELECT 1"
    job.succeed()
    [follower] = job.node.http.get("/api/v1/runs", params={"job": "clean"}).json()["items"]
    assert [(each["job"], each["run"]) for each in follower["inputs"]] == [("load", run_id)]
    job.await_end(follower["id"])


@pytest.mark.parametrize(
    ("resume_at", "texts"),
    [(ResumeAt.FAILED_STATEMENT, [SECOND]), (ResumeAt.START, [FIRST, SECOND])],
)
def test_a_failed_statement_is_attempted_again(
    start_job: Callable[..., BatchJob], resume_at: ResumeAt, texts: list[str]
) -> None:
    job = start_job(resume_at=resume_at)
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == FIRST
    job.succeed()
    assert job.next_statement() == SECOND
    job.driver.fail(LOST)
    for text in texts:
        assert job.next_statement() == text
        assert job.get(run_id)["attempt"] == 2
        job.succeed()
    assert job.await_end(run_id)["state"] == "succeeded"


def test_a_statement_whose_rows_are_visible_is_not_written_again(
    start_job: Callable[..., BatchJob],
) -> None:
    write = BatchStatement(text="INSERT INTO t SELECT 1")
    job = start_job(statements=[write, BatchStatement(text=SECOND)])
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == write.text
    job.driver.begin_commit()
    job.driver.fail(LOST)
    # The rows may still become visible.
    wait_until(lambda: job.node.statement(job.driver.statement)["state"] == "failed")
    assert len(job.get(run_id)["statements"]) == 1
    with job.node.database.write("test") as tx:
        published = {"state": TransactionState.COMMITTED, "ended_at": clock()}
        tx.execute(update(tables.transactions).values(published))
    assert job.next_statement() == SECOND
    job.succeed()
    ended = job.await_end(run_id)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)


def test_a_run_ends_after_its_last_attempt(start_job: Callable[..., BatchJob]) -> None:
    job = start_job()
    run_id = job.call("jobs/load/runs")["id"]
    for _attempt in range(3):
        assert job.next_statement() == FIRST
        job.driver.fail(LOST)
    ended = job.await_end(run_id)
    assert (ended["state"], ended["attempt"]) == ("failed", 3)
    assert ended["failure"]["message"] == LOST.message


def test_wrong_sql_is_not_attempted_again_and_a_repair_runs_what_has_failed(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job()
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == FIRST
    job.succeed()
    assert job.next_statement() == SECOND
    job.driver.fail(WRONG)
    failed = job.await_end(run_id)
    assert (failed["state"], failed["attempt"]) == ("failed", 1)
    repaired = job.call(f"runs/{run_id}/repair")
    assert (repaired["repetition"], repaired["trigger"]) == (1, "repair")
    for key in ("logical_time", "interval_start", "interval_end", "version"):
        assert repaired[key] == failed[key]
    assert job.call(f"runs/{run_id}/repair", 409)["code"] == "run_state_conflict"
    assert job.next_statement() == SECOND
    job.succeed()
    assert job.await_end(repaired["id"])["state"] == "succeeded"
    assert job.call(f"runs/{repaired['id']}/repair", 409)["code"] == "run_state_conflict"


def test_the_files_of_a_run_are_a_typed_parameter_and_those_of_its_repetitions(
    start_job: Callable[..., BatchJob],
) -> None:
    def read_files() -> tuple[Any, Any]:
        [found] = [each for each in job.read_statement().spec.parameters if "files" in each.name]
        job.driver.fail(WRONG)
        return found.type, found.value

    job = start_job()
    files = ["file:/in/a%20b.json", "file:/in/c.json"]
    run_id = job.start_with_files("/in", files)
    assert job.next_statement() == FIRST
    assert read_files() == ("ARRAY<STRING>", files)
    failed = job.await_end(run_id)
    assert failed["input_files"] == files
    assert (failed["inputs"][0]["location"], failed["inputs"][0]["file_count"]) == ("/in", 2)
    [listed] = job.node.http.get("/api/v1/runs").json()["items"]
    assert (listed["input_files"], listed["inputs"]) == ([], failed["inputs"])
    for path, body in (
        (f"runs/{run_id}/repair", {}),
        ("jobs/load/runs", {"at": failed["logical_time"]}),
    ):
        again = job.call(path, **body)
        assert job.next_statement() == FIRST
        assert read_files() == ("ARRAY<STRING>", files)
        assert job.await_end(again["id"])["input_files"] == files
    job.call("jobs/load/runs")
    assert job.next_statement() == FIRST
    assert read_files() == ("ARRAY<STRING>", [])


def test_a_backfill_reads_the_files_of_each_interval_again(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job()
    hour = datetime(2026, 1, 5, 1, tzinfo=UTC)
    times = RunTimes(logical_time=hour, interval_start=hour - timedelta(hours=1), interval_end=hour)
    run_id = job.start_with_files("/in", ["file:/in/a.json"], times)
    assert job.next_statement() == FIRST
    job.driver.fail(WRONG)
    job.await_end(run_id)
    body = {"from": "2026-01-05T00:00:00Z", "to": "2026-01-05T02:00:00Z"}
    backfill = job.call("jobs/load/backfills", **body)
    listed = job.node.http.get("/api/v1/runs").json()["items"]
    files = {
        run["logical_time"][11:13]: job.get(run["id"])["input_files"]
        for run in listed
        if run["backfill"] == backfill["id"]
    }
    assert files == {"01": ["file:/in/a.json"], "02": []}


def test_a_run_and_its_repair_keep_the_version_with_which_the_run_was_due(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job()
    run = job.call("jobs/load/runs")
    assert job.next_statement() == FIRST
    new_version = job.deploy("SELECT 'new'")
    job.succeed()
    assert job.next_statement() == SECOND
    job.driver.fail(WRONG)
    assert job.await_end(run["id"])["version"] == run["version"] != new_version
    repaired = job.call(f"runs/{run['id']}/repair")
    assert repaired["version"] == run["version"]
    assert job.next_statement() == SECOND
    job.driver.fail(WRONG)
    job.await_end(repaired["id"])
    latest = job.call(f"runs/{repaired['id']}/repair", latest=True)
    assert latest["version"] == new_version
    assert job.next_statement() == "SELECT 'new'"


def test_a_repair_a_month_later_has_the_stored_times_and_limits_of_its_own(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job(time_limit=timedelta(minutes=5))
    run = job.call("jobs/load/runs", at="2026-01-05T01:00:00Z")
    for _attempt in range(3):
        assert job.next_statement() == FIRST
        job.driver.fail(LOST)
    assert job.await_end(run["id"])["attempt"] == 3
    with job.node.database.write("test") as tx:
        runs.set_columns(tx, run["id"], {"started_at": clock(-30 * 86400)})
    repaired = job.call(f"runs/{run['id']}/repair")
    assert (repaired["attempt"], repaired["started_at"]) == (0, None)
    for key in ("logical_time", "interval_start", "interval_end", "zone", "tzdata", "shifted"):
        assert repaired[key] == run[key]
    # It has all its attempts, each with its own time.
    assert job.next_statement() == FIRST
    job.driver.fail(LOST)
    for text in (FIRST, SECOND):
        assert job.next_statement() == text
        values = {each.name: each.value for each in job.read_statement().spec.parameters}
        assert values["run_time"] == "2026-01-05T01:00:00+00:00"
        job.succeed()
    ended = job.await_end(repaired["id"])
    assert (ended["state"], ended["attempt"]) == ("succeeded", 2)


def test_the_target_table_is_created_until_a_run_of_the_version_has_succeeded(
    start_job: Callable[..., BatchJob],
) -> None:
    create = BatchStatement(text="CREATE TABLE IF NOT EXISTS t AS SELECT 1", creates_target=True)
    job = start_job(statements=[create, BatchStatement(text=SECOND)])
    first = job.call("jobs/load/runs", at="2026-01-05T01:00:00Z")["id"]
    assert job.next_statement() == create.text
    job.succeed()
    assert job.next_statement() == SECOND
    job.driver.fail(WRONG)
    job.await_end(first)
    for hour in (2, 3):
        run = job.call("jobs/load/runs", at=f"2026-01-05T0{hour}:00:00Z")["id"]
        if hour == 2:
            assert job.next_statement() == create.text
            job.succeed()
        assert job.next_statement() == SECOND
        job.succeed()
        assert job.await_end(run)["state"] == "succeeded"


def test_a_job_with_a_session_of_its_own_has_a_connection_for_each_run_there(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job(in_pool=False)
    used = set()
    for hour in (1, 2):
        run = job.call("jobs/load/runs", at=f"2026-01-05T0{hour}:00:00Z")["id"]
        for text in (FIRST, SECOND):
            assert job.next_statement() == text
            statement = job.read_statement()
            used.add((statement.session_id, statement.connection_id))
            job.succeed()
        assert job.await_end(run)["state"] == "succeeded"
    [session_id] = {session for session, _connection in used}
    assert len({connection for _session, connection in used} - {None}) == 2
    session = job.node.http.get(f"/api/v1/sessions/{session_id}").json()
    assert session["name"] == "jobs-default"


def test_a_run_whose_session_a_user_has_opened_otherwise_fails_and_says_so(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job(in_pool=False)
    conf = {"spark.executor.memory": "3g"}
    opened = job.node.http.post("/api/v1/sessions", json={"name": "jobs-default", "conf": conf})
    assert opened.status_code == 201, opened.text
    ended = job.await_end(job.call("jobs/load/runs")["id"])
    assert (ended["state"], ended["failure"]["code"]) == ("failed", "session_conflict")


def test_the_code_of_a_job_goes_to_the_driver_with_the_statement_that_reads_its_rows(
    start_job: Callable[..., BatchJob],
) -> None:
    code = "execution_output = spark.range(3)"
    job = start_job(statements=[BatchStatement(text="INSERT INTO t SELECT 1", code=code)])
    run = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == "INSERT INTO t SELECT 1"
    with job.node.database.read() as tx:
        assert jobs.get_task(tx, job.driver.statement) == BindRows(code=code)
    job.succeed()
    assert job.await_end(run)["state"] == "succeeded"


def test_a_cancelled_run_cancels_its_statement_and_submits_no_other(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job()
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == FIRST
    statement = job.driver.statement
    job.call(f"runs/{run_id}/cancel", 202)
    cancelling = lambda: job.node.statement(statement)["state"] == "cancelling"  # noqa: E731
    wait_until(cancelling)
    job.succeed()
    ended = job.await_end(run_id)
    assert (ended["state"], ended["reason"]) == (
        "cancelled",
        f"Cancelled (by {LOCAL_CALLER.owner}).",
    )
    assert len(ended["statements"]) == 1
    assert job.call(f"runs/{run_id}/cancel", 409)["code"] == "run_state_conflict"


def exceed_time_limit(job: BatchJob, run_id: str) -> None:
    """Let the attempt of a run have lasted for an hour."""
    with job.node.database.write("test") as tx:
        runs.set_columns(tx, run_id, {"started_at": clock(-3600)})


def test_an_attempt_beyond_its_time_limit_is_cancelled_and_fails(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job(time_limit=timedelta(minutes=30), retries=RunRetries(max_attempts=0))
    run_id = job.call("jobs/load/runs")["id"]
    job.await_statement()
    exceed_time_limit(job, run_id)
    ended = job.await_end(run_id)
    assert (ended["state"], ended["failure"]["code"]) == ("failed", "time_limit")
    [statement] = ended["statements"]
    assert job.node.statement(statement["statement"])["state"] == "cancelled"


def test_a_run_at_a_time_is_that_of_the_schedule(start_job: Callable[..., BatchJob]) -> None:
    job = start_job()
    run = job.call("jobs/load/runs", at="2026-01-05T03:00:00+02:00")
    assert run["logical_time"] == "2026-01-05T01:00:00.000000Z"
    assert run["interval_start"] == "2026-01-05T00:00:00.000000Z"
    wrong = job.call("jobs/load/runs", 400, at="2026-01-05T01:30:00Z")
    assert "2026-01-05T01:00:00" in wrong["hint"]
    assert "2026-01-05T02:00:00" in wrong["hint"]
    assert job.call("jobs/load/runs", 400, at="2026-01-05T01:00:00")["code"] == "invalid_request"
    again = job.call("jobs/load/runs", 409, at="2026-01-05T01:00:00Z")
    assert run["id"] in again["detail"]


def test_a_backfill_plans_its_intervals_and_leaves_out_what_runs(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job()
    live = job.call("jobs/load/runs", at="2026-01-05T02:00:00Z")
    body = {"from": "2026-01-05T00:30:00Z", "to": "2026-01-05T04:00:00Z", "parallel": 2}
    plan = job.call("jobs/load/backfills", dry_run=True, **body)
    assert plan["id"] is None
    shown = [(each["start"][11:16], each["end"][11:16]) for each in plan["intervals"]]
    assert shown == [("01:00", "02:00"), ("02:00", "03:00"), ("03:00", "04:00")]
    first, *others = [each["state"] for each in plan["intervals"]]
    # The node may have begun it.
    assert first in {"due", "running"}
    assert others == [None, None]
    assert live["id"] in plan["intervals"][0]["refusal"]
    assert (plan["version"], plan["target"], plan["partitions_query"]) == (
        live["version"],
        None,
        None,
    )
    assert len(job.node.http.get("/api/v1/runs").json()["items"]) == 1
    backfill = job.call("jobs/load/backfills", **body)
    members = job.node.http.get("/api/v1/runs", params={"job": "load"}).json()["items"]
    assert [run["backfill"] for run in members] == [backfill["id"], backfill["id"], None]
    ended = job.call(f"backfills/{backfill['id']}/cancel", 202)["items"]
    assert len(ended) == 2
    for run in ended:
        assert job.await_end(run["id"])["state"] == "cancelled"
    assert job.get(live["id"])["state"] in {"due", "running"}


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("jobs/other/runs", {}, 404, "job_not_found"),
        ("runs/rn_x/cancel", {}, 404, "run_not_found"),
        ("runs/rn_x/repair", {}, 404, "run_not_found"),
        ("backfills/bf_x/cancel", {}, 404, "run_not_found"),
        (
            "jobs/load/backfills",
            {"from": "1990-01-01T00:00:00Z", "to": "2020-01-01T00:00:00Z"},
            400,
            "invalid_request",
        ),
        (
            "jobs/load/backfills",
            {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "parallel": 0},
            400,
            "invalid_request",
        ),
    ],
    ids=["job", "cancel", "repair", "backfill", "too many", "parallel"],
)
def test_a_request_that_cannot_be_met_says_why(
    start_job: Callable[..., BatchJob], path: str, body: dict[str, Any], status: int, code: str
) -> None:
    job = start_job()
    assert job.call(path, status, **body)["code"] == code


def test_a_run_that_a_node_leaves_is_continued_by_another_without_a_second_submit(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job()
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == FIRST
    job.stop_operations()
    job.succeed()
    with job.node.database.read() as tx:
        run = runs.get(tx, run_id)
    assert run is not None
    assert run.state is RunState.RUNNING
    job.continue_operations()
    assert job.next_statement() == SECOND
    job.succeed()
    ended = job.await_end(run_id)
    assert (ended["state"], len(ended["statements"])) == ("succeeded", 2)


def test_the_lateness_of_a_run_counts_once_when_its_first_attempt_begins(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job(statements=[BatchStatement(text=FIRST)])
    job.stop_operations()
    late = job.call("jobs/load/runs", at="2026-01-05T01:00:00Z")["id"]
    waiting = job.call("jobs/load/runs", at="2026-01-05T02:00:00Z")["id"]
    with job.node.database.write("test") as tx:
        tx.execute(update(tables.runs).values(due_at=clock(-7200), trigger=RunTrigger.SCHEDULE))
    job.call(f"runs/{waiting}/cancel", 202)
    job.continue_operations()
    assert job.next_statement() == FIRST
    job.driver.fail(LOST)
    # Another node makes the second attempt.
    job.stop_operations()
    job.continue_operations()
    assert job.next_statement() == FIRST
    job.succeed()
    assert job.await_end(late)["attempt"] == 2
    assert job.await_end(waiting)["state"] == "cancelled"
    samples = {
        sample.name.removeprefix("headrace_run_lateness_seconds_"): sample.value
        for family in text_string_to_metric_families(job.node.http.get("/metrics").text)
        for sample in family.samples
        if family.name == "headrace_run_lateness_seconds" and sample.labels["trigger"] == "schedule"
    }
    assert samples["count"] == 1
    assert 7200 <= samples["sum"] < 8000


def test_a_statement_is_kept_until_its_run_has_seen_its_end(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job()
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == FIRST
    job.stop_operations()
    job.succeed()
    assert job.call("history/purge", 200, older_than="1ms")["statements"] == 0
    job.continue_operations()
    # Without the statement, the run would submit the first one again.
    assert job.next_statement() == SECOND
    job.succeed()
    assert job.await_end(run_id)["state"] == "succeeded"
    assert job.call("history/purge", 200, older_than="1ms")["statements"] == 2


def test_a_run_costs_two_transactions_beside_its_firing_and_its_statement(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job(statements=[BatchStatement(text=FIRST)])
    # The first run of a node also starts the driver, and the renewals of leases.
    first = job.call("jobs/load/runs", at="2026-01-05T01:00:00Z")["id"]
    assert job.next_statement() == FIRST
    job.succeed()
    job.await_end(first)
    before = Counter(job.node.database.write_counts)
    with job.node.database.write("test") as tx:
        change = update(job_schedules).where(job_schedules.c.job_id == job.id)
        cron, last = make_daily(read_clock(tx.connection))
        rules = FiringRules(schedule=Schedule(cron=cron))
        cursor = last - timedelta(days=1)
        tx.execute(change.values(rules=rules, cursor=cursor, next_at=clock()))
    assert job.next_statement() == FIRST
    job.succeed()
    newest, _first = job.node.http.get("/api/v1/runs").json()["items"]
    assert job.await_end(newest["id"])["trigger"] == "schedule"
    counts = Counter(job.node.database.write_counts) - before
    own = {name: count for name, count in counts.items() if name.startswith(_OF_RUNS)}
    # The first step begins the attempt, and the second one sees the end of the statement.
    assert own == {"schedule.fire": 1, "operation.claim": 1, "run.step": 2}


def test_a_stopped_job_ends_the_run_that_has_begun(start_job: Callable[..., BatchJob]) -> None:
    job = start_job()
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == FIRST
    with job.node.database.write("test") as tx:
        stopped = jobs.get(tx, job.id)
        assert stopped is not None
        stop_schedule(tx, stopped, is_deleted=False, actor="ada")
    job.succeed()
    assert job.next_statement() == SECOND
    job.succeed()
    assert job.await_end(run_id)["state"] == "succeeded"


def test_an_attempt_that_ignores_its_cancel_ends_with_its_work_and_not_before(
    start_job: Callable[..., BatchJob],
) -> None:
    job = start_job(time_limit=timedelta(minutes=30), retries=RunRetries(max_attempts=0))
    run_id = job.call("jobs/load/runs")["id"]
    assert job.next_statement() == FIRST
    exceed_time_limit(job, run_id)
    statement = job.driver.statement
    wait_until(lambda: job.node.statement(statement)["state"] == "cancelling")
    assert job.get(run_id)["state"] == "running"
    job.driver.fail(LOST)
    ended = job.await_end(run_id)
    assert (ended["state"], ended["failure"]["code"]) == ("failed", "time_limit")
