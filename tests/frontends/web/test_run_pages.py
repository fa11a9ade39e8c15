"""The pages of runs and backfills, and of the jobs that have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.batch_jobs import FIRST, SECOND, BatchJob, insert_batch_job
from tests.support.browsers import Browser, Page
from tests.support.deployed_job import DeployedJob
from tests.support.identities import LOCAL_CALLER, create_tokens
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.simulated_jobs import SimulatedJobs
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.lifecycle import RunState
from headrace.model.run import FiringRules, Overlap, RunTimes, RunTrigger
from headrace.model.schedule import Schedule
from headrace.store.clock import clock, read_clock
from headrace.store.jobs import runs, triggers
from headrace.store.tables import table_changes

WRONG = Failure(code="spark_error", message="<script>There is no table.", sqlstate="42P01")
T1, T2 = "2026-01-05T01:00:00Z", "2026-01-05T02:00:00Z"
HOURLY_IN_BERLIN = FiringRules(
    schedule=Schedule(cron="0 * * * *", timezone="Europe/Berlin"),
    overlap=Overlap.QUEUE,
    delay=timedelta(minutes=10),
)


@pytest.fixture
def open_job(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., tuple[BatchJob, Browser]]]:
    monkeypatch.setattr("headrace.control.runs.steps._POLL_SECONDS", (0.01, 0.02))
    monkeypatch.setattr("headrace.control.runs.steps._LONGEST_WAIT", 0.02)
    with ExitStack() as stack:

        def start(**batch: Any) -> tuple[BatchJob, Browser]:
            job = BatchJob(start_node(), **batch)
            return job, stack.enter_context(Browser(job.node))

        yield start


def await_page(browser: Browser, link: str, text: str) -> Page:
    def find() -> Page | None:
        page = browser.open(link)
        return page if text in page.text else None

    return wait_until(find, what=f"{link} has {text!r}")


def test_an_empty_list_says_why_it_is_empty(
    open_job: Callable[..., tuple[BatchJob, Browser]],
) -> None:
    job, browser = open_job()
    assert "There are no runs yet." in browser.open("runs").text
    assert "No run was due yet." in browser.open("jobs/load").text
    for link in ("runs?state=failed", "runs?job=none"):
        assert "No run matches the filter. Show all" in browser.open(link).text
    run_id = job.call("jobs/load/runs", at=T1)["id"]
    assert "matches the filter, which hides 1 run." in browser.open("runs?state=failed").text
    assert "There are no further runs." in browser.open(f"runs?before={run_id}").text
    for wrong in ("runs?before=x", f"runs?job={'x' * 2000}"):
        assert browser.open(wrong).response.status_code == 400
    for missing in ("runs/rn_x", "runs/rn_x/json", "backfills/bf_x"):
        assert browser.open(missing).response.status_code == 404


def test_a_run_is_followed_failed_and_repaired(
    open_job: Callable[..., tuple[BatchJob, Browser]],
) -> None:
    job, browser = open_job()
    run_id = job.call("jobs/load/runs", at=T1)["id"]
    assert job.next_statement() == FIRST
    page = browser.open(f"runs/{run_id}")
    statement = job.driver.statement
    assert f"Statement {statement} is " in page.text
    assert any(each.endswith(f"statements/{statement}") for each in page.links)
    assert "2026-01-05 00:00:00 UTC to 2026-01-05 01:00:00 UTC , the end not included" in page.text
    job.succeed()
    assert job.next_statement() == SECOND
    job.driver.fail(WRONG)
    page = await_page(browser, f"runs/{run_id}", "Repair")
    assert page.find_unwanted_tags() == []
    assert "<script>There is no table." in page.text
    assert "2 of 2" in page.text
    listed = browser.open("runs?state=failed&job=load")
    assert [each for each in listed.links if each.endswith(f"runs/{run_id}")]
    assert "<script>There is no table." in listed.text
    asked = browser.submit(page, f"runs/{run_id}/repair", version="same")
    assert "begins with statement 2 of the version that it ran." in asked.text
    assert "begins with statement 1 of the deployed version" in (
        browser.submit(page, f"runs/{run_id}/repair", version="latest").text
    )
    repaired = browser.submit(asked, f"runs/{run_id}/repair")
    new = repaired.response.url.path.rpartition("/")[2]
    assert new.startswith("rn_")
    assert "the time was run before" in repaired.text
    shown = browser.open(f"runs/{new}/json").response.json()
    assert shown["trigger"] == "repair"
    # A second repair is refused on the page of the run.
    refused = browser.submit(asked, f"runs/{run_id}/repair")
    assert refused.response.status_code == 409
    assert len([1 for _tag, values in refused.tags if values.get("id") == "live"]) == 1


def test_the_page_of_a_run_lists_the_files_that_it_reads(
    open_job: Callable[..., tuple[BatchJob, Browser]],
) -> None:
    job, browser = open_job()
    run_id = job.start_with_files("/in", ["file:/in/a.json", "file:/in/<b>.json"])
    page = browser.open(f"runs/{run_id}")
    assert "2 to read" in page.text
    assert "file:/in/a.json" in page.text
    assert page.find_unwanted_tags() == []


def test_a_run_is_cancelled_after_a_question_that_names_what_it_costs(
    open_job: Callable[..., tuple[BatchJob, Browser]],
) -> None:
    job, browser = open_job()
    first = job.call("jobs/load/runs", at=T1)["id"]
    waiting = job.call("jobs/load/runs", at=T2)["id"]
    page = browser.open(f"runs/{waiting}")
    assert f"It waits for the run {first} of its job." in page.text
    assert "1 run waits for a turn" in browser.open("jobs/load").text
    asked = browser.submit(page, f"runs/{waiting}/cancel")
    assert "Its statement is cancelled, and no further one is submitted." in asked.text
    assert job.get(waiting)["state"] == "due"
    cancelled = browser.submit(asked, f"runs/{waiting}/cancel")
    assert "Cancelled (by " in cancelled.text
    assert "No statement was submitted." in cancelled.text
    assert job.get(waiting)["state"] == "cancelled"
    assert browser.submit(asked, f"runs/{waiting}/cancel").response.status_code == 409
    assert browser.submit(asked, f"runs/{waiting}/delete").response.status_code == 400


def insert_run(node: InProcessNode, job_id: str, state: RunState, start: int, end: int) -> str:
    """Insert a run of the hours of a day in the past, and end it. Return its id."""
    with node.database.write("test") as tx:
        # Not yesterday: midnight may come between two runs.
        day = datetime(2026, 1, 5, tzinfo=UTC)
        times = RunTimes(
            logical_time=day + timedelta(hours=end),
            interval_start=day + timedelta(hours=start),
            interval_end=day + timedelta(hours=end),
        )
        run = runs.insert_run(
            tx,
            job_id,
            owner=LOCAL_CALLER.owner,
            name="load",
            version_id="jv_x",
            trigger=RunTrigger.SCHEDULE,
            times=times,
            due_at=times.logical_time,
            actor="test",
        )
        if state is RunState.SKIPPED:
            runs.end(tx, run, state, actor="test", reason="The run before it runs still.")
            return run.id
        runs.begin_attempt(tx, run, position=0, connection_id="cn_x", actor="test")
        begun = runs.lock(tx, run.id)
        assert begun is not None
        runs.end(tx, begun, state, actor="test")
    return run.id


def test_the_page_of_a_job_shows_its_schedule_and_what_is_missing_in_its_last_runs(
    open_job: Callable[..., tuple[BatchJob, Browser]],
) -> None:
    job, browser = open_job()
    for state, start, end in (
        (RunState.SUCCEEDED, 0, 1),
        (RunState.SKIPPED, 1, 2),
        (RunState.FAILED, 4, 5),
    ):
        insert_run(job.node, job.id, state, start, end)
    page = browser.open("jobs/load")
    assert "every hour, UTC. Overlapping runs: skip; missed runs: last." in page.text
    assert len(re.findall(r"\d\d:00:00\+00:00", page.text.partition("Next runs")[2])) == 5
    cells = [
        str(values["aria-label"])
        for tag, values in page.tags
        if tag in {"a", "span"} and str(values.get("class")).startswith("state ")
        if values.get("aria-label")
    ]
    assert [each.partition(" UTC")[2] for each in cells] == [
        ": succeeded",
        ": skipped. The run before it runs still.",
        f" to {cells[2].rpartition(' to ')[2]}",
        ": failed",
    ]
    assert cells[2].startswith("No run covers ")
    assert "02:00:00 UTC to" in cells[2]
    assert cells[2].endswith("04:00:00 UTC")
    assert "Savepoints" not in page.text


def test_a_job_runs_now_and_asks_before_a_time_runs_again(
    open_job: Callable[..., tuple[BatchJob, Browser]],
) -> None:
    # All of these runs have the same time: no hour may end between them.
    job, browser = open_job(rules=FiringRules(schedule=Schedule(cron="@yearly")))
    started = browser.submit(browser.open("jobs/load"), "jobs/load/run")
    run_id = started.response.url.path.rpartition("/")[2]
    assert started.response.url.path == f"/ui/runs/{run_id}"
    # The run of the time has not ended.
    refused = browser.submit(browser.open("jobs/load"), "jobs/load/run")
    assert refused.response.status_code == 409
    assert run_id in refused.text
    for _statement in (FIRST, SECOND):
        job.next_statement()
        job.succeed()
    job.await_end(run_id)
    asked = browser.submit(browser.open("jobs/load"), "jobs/load/run")
    assert "those that append write their rows a second time." in asked.text
    again = browser.submit(asked, "jobs/load/run")
    assert "the time was run before" in again.text
    assert browser.submit(asked, "jobs/none/run").response.status_code == 404


def test_a_backfill_shows_its_plan_before_it_starts_and_how_far_it_has_come(
    open_job: Callable[..., tuple[BatchJob, Browser]],
) -> None:
    job, browser = open_job()
    live = job.call("jobs/load/runs", at=T2)["id"]
    page = browser.open("jobs/load")
    wanted = {"from": "2026-01-05T01:00", "to": "2026-01-05T05:00", "parallel": "2"}
    plan = browser.submit(page, "jobs/load/backfill", **wanted)
    assert "3 runs, at most 2 at the same time." in plan.text
    assert f"left out, because its run {live} is" in plan.text
    assert "2026-01-05 02:00:00 to 2026-01-05 03:00:00 UTC: new" in plan.text
    assert len(job.node.http.get("/api/v1/runs").json()["items"]) == 1
    started = browser.submit(plan, "jobs/load/backfill")
    backfill = started.response.url.path.rpartition("/")[2]
    assert started.response.url.path == f"/ui/backfills/{backfill}"
    assert "0 of 3 runs ended: 3 ○ due" in started.text
    member = next(each for each in started.links if "runs/rn_" in each)
    assert backfill in browser.open(member.removeprefix("../")).text
    asked = browser.submit(started, f"backfills/{backfill}/cancel")
    assert "3 runs of 3 will be cancelled, " in asked.text
    browser.submit(asked, f"backfills/{backfill}/cancel")
    ended = await_page(browser, f"backfills/{backfill}", "3 of 3 runs ended: 3 ■ cancelled")
    assert "Cancel the backfill" not in ended.text


@pytest.mark.parametrize(
    "changes",
    [
        {"from": "x"},
        {"to": ""},
        {"from": "0001-01-01T00:00+14:00"},
        {"parallel": "x"},
        {"parallel": "0"},
        {"parallel": "²"},
        {"from": "2026-01-05T04:00", "to": "2026-01-05T02:00"},
        {"from": "1990-01-01T00:00"},
    ],
    ids=["text", "empty", "early", "words", "none", "digit", "reversed", "many"],
)
def test_a_wrong_backfill_is_refused_on_the_page_of_the_job(
    open_job: Callable[..., tuple[BatchJob, Browser]], changes: dict[str, str]
) -> None:
    _job, browser = open_job()
    wanted = {"from": "2026-01-05T01:00", "to": "2026-01-05T05:00", "parallel": "2"} | changes
    refused = browser.submit(browser.open("jobs/load"), "jobs/load/backfill", **wanted)
    assert refused.response.status_code == 400
    assert "Last runs" in refused.text
    assert "There are no runs yet." in browser.open("runs").text


def test_times_without_an_offset_are_those_of_the_zone_of_the_schedule(
    node: InProcessNode, browser: Browser
) -> None:
    with node.database.read() as tx:
        now = read_clock(tx.connection)
    insert_batch_job(node.database, HOURLY_IN_BERLIN, cursor=now, owner=LOCAL_CALLER.owner)
    page = browser.open("jobs/load")
    assert "Europe/Berlin" in page.text
    assert "A run begins 10 min after its time." in page.text
    wanted = {"from": "2026-01-05T01:00", "to": "2026-01-05T03:00"}
    plan = browser.submit(page, "jobs/load/backfill", **wanted)
    assert "2026-01-05 00:00:00 to 2026-01-05 01:00:00 UTC: new" in plan.text
    browser.submit(plan, "jobs/load/backfill")
    [first] = [
        each["id"]
        for each in node.http.get("/api/v1/runs").json()["items"]
        if each["logical_time"].startswith("2026-01-05T01:00")
    ]
    assert "2026-01-05 02:00:00+01:00 Europe/Berlin" in browser.open(f"runs/{first}").text


def test_the_page_of_a_job_with_a_lag_shows_it_with_its_limit(
    node: InProcessNode, browser: Browser
) -> None:
    with node.database.read() as tx:
        now = read_clock(tx.connection)
    schedule = Schedule.model_validate({"max-lag": "15min", "of": ["sales"]})
    job_id = insert_batch_job(
        node.database, FiringRules(schedule=schedule), cursor=now, owner=LOCAL_CALLER.owner
    )
    assert "Its rows are 0 s behind its tables." in browser.open("jobs/load").text
    with node.database.write("test") as tx:
        triggers.note_deployment(tx, job_id, "jv_x")
        tx.execute(update(table_changes).values(changed_at=clock(-1200), ready_at=None))
    # The page may be read some seconds later.
    page = re.sub(r"20 min \d+ s", "20 min", browser.open("jobs/load").text)
    assert "At most 15 min behind sales." in page
    assert "20 min behind its tables, which is more than max-lag allows." in page
    assert "Its rows are 20 min behind its tables, and `max-lag` is 15 min." in page


def test_only_those_who_may_change_a_job_are_offered_its_actions(start_node: StartNode) -> None:
    node = start_node(token="secret")
    tokens = create_tokens(node.database, ["ada", "bob"])
    ada = node.http.get("/api/v1/quota", headers={"Authorization": f"Bearer {tokens['ada']}"})
    with node.database.read() as tx:
        now = read_clock(tx.connection)
    rules = FiringRules(schedule=Schedule(cron="0 * * * *"))
    owner = str(ada.json()["owner"])
    job_id = insert_batch_job(node.database, rules, cursor=now, owner=owner)
    headers = {"Authorization": f"Bearer {tokens['ada']}"}
    path = f"/api/v1/jobs/{job_id}/backfills"
    body = {"from": T1, "to": "2026-01-05T03:00:00Z"}
    backfill = node.http.post(path, json=body, headers=headers).json()["id"]
    run_id = node.http.get("/api/v1/runs", headers=headers).json()["items"][0]["id"]
    links = (f"runs/{run_id}", f"backfills/{backfill}", f"jobs/{job_id}")
    with Browser(node) as browser:
        browser.sign_in(tokens["bob"])
        for link in links:
            assert browser.open(link).response.status_code == 404
        assert "There are no runs yet." in browser.open("runs?owner=all").text
        for link in (f"runs/{run_id}/cancel", f"backfills/{backfill}/cancel", f"jobs/{job_id}/run"):
            refused = browser.submit(browser.open("runs"), link, confirmed="9")
            assert refused.response.status_code == 404
    with Browser(node) as browser:
        browser.sign_in(tokens["ada"])
        offered = [len(browser.open(link).actions) for link in links]
        assert all(count >= 2 for count in offered), offered


def test_a_paused_job_says_so_and_continues(tmp_path: Path) -> None:
    drivers = SimulatedJobs()
    with ExitStack() as stack:
        node = stack.enter_context(serve_node(make_settings(tmp_path / "home"), drivers))
        browser = stack.enter_context(Browser(node))
        job = DeployedJob(node, drivers, tmp_path / "state")
        job.manifest = {"name": "load", "schedule": {"every": "1h"}, "script": "SELECT 1"}
        job.definitions = ""
        job.deploy()
        page = browser.open("jobs/load")
        assert "Every 1 h. Overlapping runs: skip; missed runs: last. Next runs:" in page.text
        assert "Take a savepoint" not in page.text
        asked = browser.submit(page, "jobs/load/stop")
        assert (
            "Its schedule starts no runs until the job is started. Due runs still end."
            in asked.text
        )
        browser.submit(asked, "jobs/load/stop")
        paused = await_page(browser, "jobs/load", "Paused: its schedule starts no runs.")
        assert "The clock starts no run: the job is paused" in paused.text
        assert "Paused: its schedule starts no runs." in browser.open("jobs").text
        browser.submit(paused, "jobs/load/start")
        await_page(browser, "jobs/load", "Pause the schedule")
        assert "Next runs:" in browser.open("jobs/load").text
