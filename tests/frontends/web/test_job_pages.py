"""The pages of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.browsers import Browser, Page
from tests.support.deployed_job import DeployedJob
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import make_settings, serve_node
from tests.support.simulated_jobs import SimulatedJobs
from tests.support.stream_expectations import make_batch
from tests.support.waiting import wait_until

from headrace.frontends.web.job_pages import diff_lines
from headrace.model.job_messages import BrokenReader, ComparedColumns
from headrace.model.reasons import Reason, ReasonCode


@pytest.fixture
def job(tmp_path: Path) -> Iterator[DeployedJob]:
    drivers = SimulatedJobs()
    with serve_node(make_settings(tmp_path / "home"), drivers) as node:
        yield DeployedJob(node, drivers, tmp_path / "state")


@pytest.fixture
def browser(job: DeployedJob) -> Iterator[Browser]:
    with Browser(job.node) as browser:
        yield browser


def open_job(browser: Browser, state: str) -> Page:
    """Open the page of the job when it has a state and no change is in progress."""

    def find() -> Page | None:
        page = browser.open("jobs/job")
        is_changing = "A change of the job is in progress" in page.text
        return (
            page if not is_changing and f"{state} " in page.text.partition("Version")[0] else None
        )

    return wait_until(find, what=f"the job is {state}")


def test_a_stream_shows_what_its_batches_have_counted(job: DeployedJob, browser: Browser) -> None:
    job.drivers.measure = lambda batch: [make_batch(batch, 10, 3), make_batch(batch + 2, None)]
    job.deploy(expect=[{"name": "positive", "condition": "value > 0"}])
    job.advance(1)
    page = wait_until(
        lambda: found if "violated" in (found := browser.open("jobs/job")).text else None,
        what="the counts are shown",
    )
    assert "all batches positive: value > 0" in " ".join(page.text.split())
    assert "of the batches are not known" in page.text


def test_a_list_without_jobs_says_how_to_deploy_one(browser: Browser) -> None:
    assert "There are no jobs yet." in browser.open("jobs").text
    assert browser.open("jobs/nothing").response.status_code == 404


def test_a_job_shows_its_versions_and_how_they_differ(job: DeployedJob, browser: Browser) -> None:
    job.deploy()
    page = browser.open("jobs")
    link = next(each for each in page.links if "jobs/" in each)
    page = browser.open(link)
    assert page.response.status_code == 200
    assert "Manifest of the deployed version" in page.text
    assert not [each for each in page.links if "/diff?" in each]
    job.deploy(description="Another text")
    page = open_job(browser, "running")
    [diff] = [each for each in page.links if "/diff?" in each]
    shown = browser.open(diff.removeprefix("../"))
    assert "Another text" in shown.text
    assert '<span class="added">' in shown.response.text
    assert "The manifests are the same." in browser.open("jobs/job/diff?old=1.1&new=1.1").text
    # Any two revisions can be chosen.
    choices = [values.get("name") for tag, values in page.tags if tag == "select"]
    assert choices == ["old", "new"]
    assert [each for each in page.actions if each.endswith("/diff")]
    missing = browser.open("jobs/job/diff?old=1.1&new=7.1").text
    assert "The manifest of version 7.1 is not kept." in missing
    for wrong in ("old=1&new=1.1", "old=x&new=1.1", "old=1.1", f"old=1.1&new={10**30}.1"):
        assert browser.open(f"jobs/job/diff?{wrong}").response.status_code == 400


def test_a_job_is_shown_as_the_api_does_and_its_stream_marks_the_versions(
    job: DeployedJob, browser: Browser
) -> None:
    job.deploy()
    page = open_job(browser, "running")
    described = job.node.http.get("/api/v1/jobs/job").json()
    job_id = described["id"]
    assert f"headrace job show {job_id}" in page.text
    shown = browser.open(f"jobs/{job_id}/json").response.json()
    assert (shown["id"], shown.keys()) == (job_id, described.keys())
    assert browser.open("jobs/nothing/json").response.status_code == 404
    stream = next(each for each in page.links if "streams/" in each).rpartition("/")[2]
    marks = browser.open(f"streams/{stream}/history").response.json()["marks"]
    assert [each["text"] for each in marks if each["kind"] == "version"] == [
        "version 1.1: start-clean"
    ]


def test_the_retry_of_a_job_counts_down(
    job: DeployedJob, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.deploy()
    jobs = job.node.node.jobs
    retry_at = job.node.node.read_clock() + timedelta(hours=1)
    reason = Reason(ReasonCode.RETRY, "The query q: Retry 2 of 10 in 32 s: it failed.", retry_at)
    status = replace(jobs.get_job(LOCAL_CALLER, "job"), reason=reason)
    monkeypatch.setattr(jobs, "get_job", lambda *_: status)
    monkeypatch.setattr(jobs, "list_jobs", lambda *_, **__: [status])
    for path in ("jobs", "jobs/job"):
        page = browser.open(path)
        assert [1 for _, values in page.tags if values.get("data-until")] == [1]
        # Outside of the countdown, nothing changes with the time.
        html = page.response.text
        assert html.count("32 s") == html.count(">32 s</span>: it failed.") == 1


def test_a_job_is_saved_stopped_started_and_rolled_back_from_its_page(
    job: DeployedJob, browser: Browser
) -> None:
    job.deploy()
    job.advance(2)
    page = browser.submit(open_job(browser, "running"), "jobs/job/savepoint")
    assert page.response.url.path.startswith("/ui/jobs/")
    page = open_job(browser, "running")
    assert "There is no savepoint yet" not in page.text
    assert "Roll back" not in page.text
    job.deploy(sql="SELECT value + 1 AS value FROM numbers")
    page = open_job(browser, "running")
    assert "Roll back to 1" in page.text
    page = browser.submit(page, "jobs/job/rollback", version="1")
    assert "Roll the job job back to version 1? 1 streaming query of it will stop" in page.text
    browser.submit(page, "jobs/job/rollback")
    page = open_job(browser, "running")
    same = browser.open("jobs/job/diff?old=1.1&new=3.3")
    assert "The manifests are the same." in same.text
    page = browser.submit(page, "jobs/job/stop")
    assert "1 streaming query of it will stop, with a savepoint." in page.text
    page = browser.submit(page, "jobs/job/stop")
    page = open_job(browser, "stopped")
    assert "Start from the latest state" in page.text
    browser.submit(page, "jobs/job/start")
    open_job(browser, "running")


def plan_of(page: Page) -> str:
    """Return the part of a page of a job with today's plan."""
    return page.text.partition("Today's plan")[2].partition("Versions")[0]


def test_a_job_shows_what_a_plan_would_decide_now(job: DeployedJob, browser: Browser) -> None:
    job.deploy()
    job.advance(1)
    plan = plan_of(open_job(browser, "running"))
    assert "would decide now: none . The job is running, and nothing has changed." in plan
    assert [each["decision"] for each in job.plan()["jobs"]] == ["none"]
    planned = job.plan_change(sql="SELECT value + 1 AS value FROM numbers")
    plan = plan_of(browser.open("jobs/job"))
    assert f"is not applied yet ( {planned['id']} ): restart-clean ." in plan
    job.apply(planned)
    assert "is not applied yet" not in plan_of(open_job(browser, "running"))
    job.act("stop")
    plan = plan_of(open_job(browser, "stopped"))
    assert "would decide now: resume-latest ." in plan
    assert [each["decision"] for each in job.plan()["jobs"]] == ["resume-latest"]


def test_a_stopped_job_without_a_savepoint_shows_the_last_decision(
    job: DeployedJob, browser: Browser
) -> None:
    job.deploy()
    job.act("stop", "?savepoint=false")
    plan = plan_of(open_job(browser, "stopped"))
    assert "only a driver can look for" in plan
    assert "start-clean . The job is new." in plan


def test_wrong_actions_are_refused(job: DeployedJob, browser: Browser) -> None:
    job.deploy()
    page = browser.open("jobs/job")
    for version in ("", "x", "0", "-1", "²", "9" * 30):
        refused = browser.submit(page, "jobs/job/rollback", version=version)
        assert refused.response.status_code == 400, version
    again = browser.submit(page, "jobs/job/rollback", version="9", confirmed="1")
    assert again.response.status_code in {404, 409}
    assert browser.submit(page, "jobs/job/delete").response.status_code == 400
    assert browser.submit(page, "jobs/nothing/stop").response.status_code == 404
    refused = browser.submit(page, "jobs/job/start")
    # The error stands on the page of the job, which follows the job from there.
    assert refused.response.status_code == 409
    assert len([1 for _tag, values in refused.tags if values.get("class") == "error"]) == 1
    assert "Streaming queries" in refused.text
    assert "Streaming queries" in browser.open("jobs/job/start").text
    open_job(browser, "running")


texts = st.lists(st.sampled_from(["a", "b", "", "-c", "+d"])).map("\n".join)


@given(texts, texts)
def test_a_diff_has_every_changed_line(old: str, new: str) -> None:
    lines = diff_lines(old, new)
    assert (lines == []) == (old.splitlines() == new.splitlines())
    added = [line[1:] for line in lines if line.startswith("+")]
    kept = [line for line in new.splitlines() if line not in old.splitlines()]
    assert set(kept) <= set(added)


def test_a_plan_that_waits_shows_what_it_breaks(job: DeployedJob, browser: Browser) -> None:
    manifest = {"name": "reader", "schedule": "manual", "sql": None, "target-table": None}
    job.deploy(**manifest, script="SELECT value FROM t")
    broken = BrokenReader(
        reader=0, message="The column value cannot be resolved.", line=1, offset=8
    )
    job.drivers.compared = ComparedColumns(broken=[broken])
    job.plan_change(script="SELECT value AS x FROM t")
    page = plan_of(browser.open("jobs/reader"))
    assert "That plan breaks:" in page
    assert "job reader : The column value cannot be resolved. (line 1, column 8)" in page
