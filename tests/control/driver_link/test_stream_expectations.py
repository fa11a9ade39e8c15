"""Expectations of streaming jobs in a node: what drivers report is counted, shown and reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.deployed_job import DeployedJob
from tests.support.in_process_node import make_settings, serve_node
from tests.support.simulated_jobs import SimulatedJobs
from tests.support.stream_expectations import make_batch
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.store import deliveries

EXPECT = [{"name": "positive", "condition": "value > 0", "on-violation": "fail"}]
WEBHOOK = {
    "url": "https://127.0.0.1:1/",
    "secret": "${secret:hook}",
    "events": ["expectation.violated"],
}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeployedJob]:
    for module in ("planning", "job_changer"):
        monkeypatch.setattr(f"headrace.control.jobs.{module}._POLL_SECONDS", 0.02)
    drivers = SimulatedJobs()
    settings = make_settings(
        tmp_path / "home",
        jobs={"proof_timeout": "5m"},
        secrets={"provider": "environment"},
        webhooks={"all": WEBHOOK},
    )
    with serve_node(settings, drivers) as node:
        yield DeployedJob(node, drivers, tmp_path / "state")


def read_stream(job: DeployedJob) -> Any:
    page = job.node.http.get("/api/v1/jobs/job/expectations").json()
    assert page["items"] == []
    return page["stream"]


def list_messages(job: DeployedJob) -> list[str]:
    with job.node.node.database.read() as tx:
        found = deliveries.page(tx, "settings/all", before=None, limit=100)
    return [each.subject.partition("/")[2] for each in found]


def test_batches_are_counted_once_shown_and_reported(job: DeployedJob) -> None:
    # Each renewal reports the last batches again.
    job.drivers.measure = lambda batch: [
        make_batch(number, 10, number) for number in range(batch + 1)
    ]
    job.deploy(expect=EXPECT)
    job.advance(2)
    stream = wait_until(
        lambda: found if (found := read_stream(job))["last_batch"] == 2 else None,
        what="the batches are counted",
    )
    assert (stream["batches"], stream["unknown_batches"], stream["state"]) == (3, 0, "running")
    assert (stream["total"]["rows_in"], stream["last"]["rows_in"]) == (30, 10)
    [total] = stream["total"]["expectations"]
    assert (total["result"], total["violations"]) == ("violated", 3)
    label = 'expectation="positive",job="job",outcome="passed"'

    def read_passed() -> str:
        lines = job.node.http.get("/metrics").text.splitlines()
        return next((line.split()[-1] for line in lines if label in line), "")

    # The node counts the rows just after the commit of the batches.
    wait_until(lambda: read_passed() == "27.0", what="the rows are counted")
    # Two batches violate the expectation, and the second is no news.
    assert list_messages(job) == ["1"]


def test_a_query_that_fails_is_reported_and_waits_for_a_user(job: DeployedJob) -> None:
    job.deploy(expect=EXPECT)
    job.advance(1)
    message = "Expectations were violated: `positive` by at least 1 row."
    job.drivers.break_query("job", Failure(code="expectation_failed", message=message))
    stream = wait_until(
        lambda: found if (found := read_stream(job))["state"] == "failed" else None,
        what="the query has failed",
    )
    assert stream["failure"]["code"] == "expectation_failed"
    # Without counts, nothing is proven.
    assert (stream["last_batch"], stream["total"]["rows_in"]) == (None, None)
    assert {each["result"] for each in stream["total"]["expectations"]} == {"unknown"}
    assert list_messages(job) == ["failed"]


def test_a_job_without_expectations_has_no_counts(job: DeployedJob) -> None:
    job.drivers.measure = lambda batch: [make_batch(batch, 10, 1)]
    job.deploy()
    job.advance(1)
    assert read_stream(job) is None
    assert list_messages(job) == []
