"""Drivers as job runs of EMR Serverless: moto stores the job runs, this host executes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.core import url_to_fs
from prometheus_client.parser import text_string_to_metric_families
from tests.support.aws import Aws, account, moto_server
from tests.support.emr_job import EmrJob
from tests.support.node import ENDED, NodeProcess
from tests.support.waiting import wait_until

LEASE_SECONDS = 10
"""A driver of a busy machine may be paused for some seconds."""
# The query only sleeps, and ends only with its driver.
LONG = "SELECT reflect('java.lang.Thread', 'sleep', 600000L)"


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    with moto_server() as address:
        yield account(address)


@pytest.fixture(scope="module")
def emr_node(aws: Aws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(
        tmp_path_factory.mktemp("emr") / "home",
        PROFILES=json.dumps({"default": aws.profile()}),
        RESULTS__LOCATION=aws.results,
        CATALOG__KIND="memory",
        LEASE__DURATION=f"{LEASE_SECONDS}s",
        LEASE__RENEW="1s",
        LEASE__SWEEP="100ms",
    )
    yield process
    process.close()


def count_backend_calls(node: NodeProcess) -> dict[str, float]:
    """Return the number of calls of EMR Serverless, by operation."""
    families = text_string_to_metric_families(node.http.get("/metrics").text)
    return {
        sample.labels["op"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "headrace_backend_calls_total"
        and sample.labels["backend"] == "emr-serverless"
    }


@pytest.mark.spark
def test_a_running_batch_query_makes_no_backend_call_until_its_driver_is_lost(
    emr_node: NodeProcess, aws: Aws, tmp_path: Path
) -> None:
    statement = emr_node.submit(LONG, kind="batch")
    [run] = wait_until(aws.job_runs, what="the job run exists")
    assert run["state"] == "RUNNING"
    assert statement["session_id"] in run["name"]
    wait_until(lambda: count_backend_calls(emr_node)["start"] == 1, what="the start is counted")

    def is_running() -> bool:
        assert job.runs(), job.log.read_text()
        return emr_node.statement(statement["id"])["state"] == "running"

    with EmrJob(run, tmp_path / "job") as job:
        wait_until(is_running, seconds=240, what="the statement runs")
        *_, bootstrap = run["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        system, inner = url_to_fs(bootstrap)
        system.invalidate_cache()
        assert not system.exists(inner)
        before = count_backend_calls(emr_node)
        for _ in range(1000):
            assert emr_node.statement(statement["id"])["state"] == "running"
        assert (
            count_backend_calls(emr_node) == before == {"start": 1, "find": 0, "poll": 0, "kill": 0}
        )

    # Only the lease reveals that the driver has ended.
    assert count_backend_calls(emr_node) == before
    ended = wait_until(
        lambda: row if (row := emr_node.statement(statement["id"]))["state"] in ENDED else None,
        what="the statement has ended",
    )
    assert ended["state"] == "failed"
    assert ended["error"]["code"] == "driver_lost"
    wait_until(lambda: aws.job_runs()[0]["state"] == "CANCELLED", what="the job run is cancelled")
    wait_until(lambda: count_backend_calls(emr_node)["kill"], what="the kill is counted")
    assert count_backend_calls(emr_node) == {**before, "poll": 1, "kill": 1}


@pytest.mark.spark
def test_a_session_on_emr_runs_queries_and_ends_with_its_job_run(
    emr_node: NodeProcess, aws: Aws, tmp_path: Path
) -> None:
    earlier_count = len(aws.job_runs())
    session = emr_node.session()
    run = wait_until(lambda: aws.job_runs()[earlier_count:], what="the job run exists")[0]
    with EmrJob(run, tmp_path / "job") as job:
        assert emr_node.rows("SELECT id * 2 FROM range(3) ORDER BY id", session) == [
            ["0"],
            ["2"],
            ["4"],
        ]
        emr_node.http.delete(f"/api/v1/sessions/{session}")
        wait_until(lambda: not job.runs(), seconds=120, what="the job has ended")
    log = emr_node.http.get(f"/api/v1/sessions/{session}/log").text
    assert f"job run {run['jobRunId']} of application {aws.application_id}" in log
