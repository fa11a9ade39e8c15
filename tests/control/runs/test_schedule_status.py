"""The queue of a job: how many runs wait for their turn, and how fast runs begin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from tests.support.batch_jobs import BatchJob
from tests.support.browsers import Browser
from tests.support.in_process_node import StartNode

from headrace.control.runs.schedule_status import measure_starts
from headrace.store.clock import clock
from headrace.store.tables import runs

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ages", "seconds"),
    [
        ([], None),
        ([10], None),
        ([10, 50], 40),
        ([0, 10, 10, 60], 20),
        ([30, 3600, 3601], 3570),
        ([5000, 7000], None),
    ],
    ids=str,
)
def test_the_rate_is_that_of_the_last_hour(ages: Sequence[int], seconds: float | None) -> None:
    assert measure_starts([NOW - timedelta(seconds=age) for age in ages], NOW) == seconds


def test_a_job_shows_its_queue_and_how_fast_its_runs_begin(start_node: StartNode) -> None:
    node = start_node()
    job = BatchJob(node)
    job.stop_operations()
    shown = node.http.get("/api/v1/jobs/load").json()
    assert (shown["waiting_runs"], shown["seconds_between_starts"]) == (0, None)
    ids = [
        job.call("jobs/load/runs", at=f"2026-01-05T0{hour}:00:00Z")["id"] for hour in range(1, 6)
    ]
    shown = node.http.get("/api/v1/jobs/load").json()
    assert (shown["waiting_runs"], shown["seconds_between_starts"]) == (4, None)
    with node.database.write("test") as tx:
        for run, age in ((ids[0], 100), (ids[1], 60)):
            begun = update(runs).where(runs.c.id == run)
            tx.execute(begun.values(has_turn=True, started_at=clock(-age)))
    shown = node.http.get("/api/v1/jobs/load").json()
    assert shown["waiting_runs"] == 3
    assert shown["seconds_between_starts"] == pytest.approx(40, abs=5)
    with Browser(node) as browser:
        page = browser.open("jobs/load").text
    assert "3 runs wait for a turn: show the queue . A run began every" in page
    assert "at this rate the last of them begins in 2 min" in page
    [listed] = node.http.get("/api/v1/jobs").json()["items"]
    assert (listed["waiting_runs"], listed["seconds_between_starts"]) == (None, None)
