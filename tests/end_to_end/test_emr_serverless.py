"""A node whose drivers are job runs of EMR Serverless: moto keeps them, this host runs them."""

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

LEASE_SECONDS = 3
# Nothing is computed meanwhile: only the driver's end ends it.
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


def backend_calls(node: NodeProcess) -> dict[str, float]:
    """How often EMR Serverless was asked, by what for."""
    families = text_string_to_metric_families(node.http.get("/metrics").text)
    return {
        sample.labels["op"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "headrace_backend_calls_total"
        and sample.labels["backend"] == "emr-serverless"
    }


@pytest.mark.spark
def test_a_running_batch_query_costs_no_call_until_its_driver_is_lost(
    emr_node: NodeProcess, aws: Aws, tmp_path: Path
) -> None:
    statement = emr_node.submit(LONG, kind="batch")
    [run] = wait_until(aws.job_runs, what="the job run is there")
    assert run["state"] == "RUNNING"
    assert statement["session_id"] in run["name"]
    wait_until(lambda: backend_calls(emr_node)["start"] == 1, what="the start is counted")

    def runs() -> bool:
        assert job.runs(), job.log.read_text()
        return emr_node.statement(statement["id"])["state"] == "running"

    with EmrJob(run, tmp_path / "job") as job:
        wait_until(runs, seconds=120, what="the statement runs")
        *_, bootstrap = run["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        system, inner = url_to_fs(bootstrap)
        system.invalidate_cache()
        assert not system.exists(inner)
        before = backend_calls(emr_node)
        for _ in range(1000):
            assert emr_node.statement(statement["id"])["state"] == "running"
        assert backend_calls(emr_node) == before == {"start": 1, "find": 0, "poll": 0, "kill": 0}

    # The lease is what tells that the driver is gone.
    assert backend_calls(emr_node) == before
    ended = wait_until(
        lambda: one if (one := emr_node.statement(statement["id"]))["state"] in ENDED else None,
        what="the statement has ended",
    )
    assert ended["state"] == "failed"
    assert ended["error"]["code"] == "driver_lost"
    wait_until(lambda: aws.job_runs()[0]["state"] == "CANCELLED", what="the job run is cancelled")
    assert backend_calls(emr_node) == {**before, "poll": 1, "kill": 1}


@pytest.mark.spark
def test_a_driver_on_emr_serves_a_session_to_its_end(
    emr_node: NodeProcess, aws: Aws, tmp_path: Path
) -> None:
    known = len(aws.job_runs())
    session = emr_node.session()
    run = wait_until(lambda: aws.job_runs()[known:], what="the job run is there")[0]
    with EmrJob(run, tmp_path / "job") as job:
        assert emr_node.rows("SELECT id * 2 FROM range(3) ORDER BY id", session) == [
            ["0"],
            ["2"],
            ["4"],
        ]
        emr_node.http.delete(f"/api/v1/sessions/{session}")
        wait_until(lambda: not job.runs(), seconds=60, what="the job has ended by itself")
    log = emr_node.http.get(f"/api/v1/sessions/{session}/log").text
    assert f"job run {run['jobRunId']} of application {aws.application_id}" in log
