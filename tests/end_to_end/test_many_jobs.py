"""Fifty small jobs in one Spark application."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.jobs import CountingJob, Json
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(900)]

_JOBS = 50
_LOG = logging.getLogger(__name__)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path / "home")
    yield process
    process.close()


class ManyJobs(CountingJob):
    """Jobs that count the ticks of one stream by remainder."""

    def request(self, **fields: object) -> Json:
        manifests = []
        for number in range(_JOBS):
            name = f"job-{number}"
            manifest = {
                "name": name,
                "target-table": "nowhere",
                "trigger": "5 seconds",
                "output-mode": "update",
                "sql": f"SELECT value % {number + 1} AS k, count(*) AS c FROM ticks GROUP BY 1",
                "spark-properties": {"spark.sql.shuffle.partitions": "1"},
            }
            manifests.append({"path": f"{name}.yaml", "text": json.dumps(manifest)})
        definitions = "CREATE STREAM ticks FROM rate; CREATE SINK nowhere TO noop;"
        return {
            "manifests": manifests,
            "definitions": [{"path": "tables.sql", "text": definitions}],
            "state_location": self.state_location,
            **fields,
        }


def test_fifty_jobs_share_an_application_and_commit_batches(
    node: NodeProcess, tmp_path: Path
) -> None:
    jobs = ManyJobs(node, tmp_path)
    begin = time.monotonic()
    planned = jobs.plan()
    planned_at = time.monotonic()
    assert [job["decision"] for job in planned["jobs"]] == ["start-clean"] * _JOBS
    applied = jobs.apply(planned)
    deployed_at = time.monotonic()

    def all_have_batches(least: int) -> bool:
        items = node.http.get("/api/v1/jobs").json()["items"]
        return len(items) == _JOBS and all((job["last_batch"] or 0) >= least for job in items)

    wait_until(lambda: all_have_batches(5), seconds=300, what="every job has committed six batches")
    items = node.http.get("/api/v1/jobs").json()["items"]
    report = f"plan {planned_at - begin:.1f} s, deployment {deployed_at - planned_at:.1f} s"
    _LOG.info("%s, six batches each after %.1f s", report, time.monotonic() - deployed_at)

    assert applied["state"] == "applied"
    assert {job["state"] for job in items} == {"running"}
    assert len({job["session"] for job in items}) == 1
    sessions = node.http.get("/api/v1/sessions").json()["items"]
    assert [each["id"] for each in sessions if each["state"] == "running"] == [items[0]["session"]]
