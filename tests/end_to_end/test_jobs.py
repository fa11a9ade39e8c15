"""Jobs on real Spark: rollback, failing versions, other deployers, and the deletion of states."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.jobs import CountingJob
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

_NUMBERS = itertools.count()
"""Numbers for names: all jobs of this file are on one node."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(
        tmp_path_factory.mktemp("node") / "home",
        LEASE__RENEW="1s",
        # A version that finds no new file commits no batch. One that is broken must fail before.
        JOBS__HEALTHY_PERIOD="15s",
        JOBS__SAVEPOINTS_KEPT="2",
        JOBS__SAVEPOINT_RETENTION="1ms",
    )
    yield process
    process.close()


@pytest.fixture(scope="module")
def reader(node: NodeProcess) -> str:
    """Return the session that reads the counts: that of the jobs, as they share one."""
    session_id = node.session(name="jobs-default")
    node.wait_running(session_id)
    return session_id


@pytest.fixture
def job(node: NodeProcess, tmp_path: Path) -> CountingJob:
    return CountingJob(node, tmp_path, name=f"counts{next(_NUMBERS)}")


def test_a_rollback_continues_with_the_state_of_the_old_version(
    reader: str, job: CountingJob
) -> None:
    job.manifest["flinkProperties"] = {
        "state.backend": "rocksdb",
        "state.backend.incremental": True,
        "state.checkpoints.num-retained": 1,
    }
    job.replace_file()
    job.deploy()
    job.wait_for_count(reader, 10)
    old_sql = job.manifest["sql"]
    # No file is replaced before the deployment: the old version might still read it.
    job.manifest["sql"] = old_sql.replace("count(*)", "1000 + count(*)")
    job.deploy()
    job.wait_for_count(reader, 1010)
    job.replace_file()
    rolled_back = job.act("rollback", version=None)

    assert rolled_back["state"] == "applied"
    # Ten that the first version had counted, and ten of the file that it had not read.
    job.wait_for_count(reader, 20)
    current = job.show()["current"]
    assert current["version"] == 3
    assert old_sql in current["manifest"]
    # Only the RocksDB of the translated properties writes changelogs.
    assert list((job.folder / "state" / "checkpoints" / job.name).rglob("state/*/*/*.changelog"))


def test_a_version_that_fails_leaves_the_old_one_running(
    node: NodeProcess, reader: str, job: CountingJob
) -> None:
    job.replace_file()
    job.deploy()
    job.wait_for_count(reader, 10)
    # It passes the analysis, and fails in its first batch.
    job.manifest["sql"] = job.manifest["sql"].replace("count(*)", "sum(raise_error('broken'))")
    job.manifest["spark-properties"]["spark.headrace.retry.min.backoff"] = "100ms"
    failed = job.deploy()

    assert failed["step"] == "failed"
    assert "broken" in failed["failure"]["message"]
    shown = job.show()
    assert shown["state"] == "running"
    assert shown["version"] == 1
    assert "broken" in shown["failure"]["message"]
    job.replace_file()
    job.wait_for_count(reader, 20)
    manifest = (job.folder / "state" / "manifests" / f"{job.name}.yaml").read_text()
    assert "raise_error" not in manifest


def test_a_manifest_that_spark_refuses_changes_nothing(reader: str, job: CountingJob) -> None:
    job.manifest["sql"] = f"SELECT missing AS c FROM {job.name}_numbers"
    planned = job.plan()

    assert planned["state"] == "rejected"
    [error] = planned["errors"]
    assert error["code"] == "analysis_error"
    assert "missing" in error["message"]
    manifest = json.dumps(job.manifest)
    assert error["line"] == 1
    assert manifest[error["column"] - 1 :].startswith("missing")
    assert job.node.http.get(f"/api/v1/jobs/{job.name}").status_code == 404
    refused = job.node.http.post(f"/api/v1/deployments/{planned['id']}/apply")
    assert refused.status_code == 409
    assert refused.json()["code"] == "plan_not_applicable"


def test_a_second_deployer_is_refused_while_the_first_one_works(
    reader: str, job: CountingJob
) -> None:
    job.replace_file()
    first, second = job.plan(), job.plan()
    job.begin_apply(first)
    busy = job.node.http.post(f"/api/v1/deployments/{second['id']}/apply")
    assert job.wait_for_end(first["id"])["state"] == "applied"
    outdated = job.node.http.post(f"/api/v1/deployments/{second['id']}/apply")

    assert busy.status_code == 409
    assert busy.json()["code"] in {"plan_outdated", "job_busy"}
    assert outdated.json()["code"] == "plan_outdated"


def test_pruning_deletes_the_jobs_without_a_manifest(reader: str, job: CountingJob) -> None:
    job.replace_file()
    job.deploy()
    other = CountingJob(job.node, job.folder / "other", name=f"{job.name}b")
    other.replace_file()
    planned = other.plan(prune=True, state_location=str(job.folder / "state"))
    decisions = {each["name"]: each["decision"] for each in planned["jobs"]}
    assert decisions == {other.name: "start-clean", job.name: "stop"}
    other.apply(planned)

    assert job.node.http.get(f"/api/v1/jobs/{job.name}").status_code == 404
    manifests = job.folder / "state" / "manifests"
    assert [file.name for file in manifests.glob("*.yaml")] == [f"{other.name}.yaml"]


def test_a_compatible_change_of_the_query_keeps_the_state(reader: str, job: CountingJob) -> None:
    job.manifest["on-query-change"] = "keep-compatible"
    job.replace_file()
    job.deploy()
    job.wait_for_count(reader, 10)
    job.manifest["sql"] += " WHERE n >= 5"
    kept = job.deploy()
    job.replace_file()
    job.wait_for_count(reader, 15)
    job.manifest["sql"] = job.manifest["sql"].replace("count(*)", "count(n)")
    reset = job.deploy()
    job.wait_for_count(reader, 5)

    assert (kept["decision"], kept["version"]) == ("restart-from-savepoint", 2)
    assert (reset["decision"], reset["version"]) == ("restart-clean", 3)
    assert "stateful" in reset["reason"]


def test_a_refused_change_of_the_query_is_an_error(reader: str, job: CountingJob) -> None:
    job.manifest["on-query-change"] = "refuse"
    job.replace_file()
    job.deploy()
    job.manifest["sql"] = job.manifest["sql"].replace("count(*)", "count(n)")
    planned = job.plan()

    [error] = planned["errors"]
    assert error["code"] == "query_change_refused"
    assert job.show()["state"] == "running"


def test_old_savepoints_and_their_checkpoints_are_deleted(reader: str, job: CountingJob) -> None:
    job.replace_file()
    job.deploy()
    for number in range(3):
        job.wait_for_count(reader, 10 * (number + 1))
        job.manifest["description"] = f"Change {number}"
        job.replace_file()
        job.deploy()

    def is_pruned() -> bool:
        return len(job.show()["savepoints"]) == 2

    wait_until(is_pruned, seconds=120, what="two savepoints are left")
    kept = {Path(each["place"]).name for each in job.show()["savepoints"]}
    root = job.folder / "state" / "savepoints" / job.name
    assert {place.name for place in root.glob("*/*")} == kept
    # The run of each kept savepoint, and the current run.
    wait_until(lambda: len(job.list_checkpoints()) == 3, what="other checkpoints are deleted")
    job.wait_for_count(reader, 40)


def test_the_rows_of_a_batch_job_are_written_once_per_clean_start(
    node: NodeProcess, reader: str, job: CountingJob
) -> None:
    del job.manifest["output-mode"], job.manifest["trigger"], job.manifest["sql"]
    job.manifest["code"] = "execution_output = spark.range(3).selectExpr('id AS c')"
    assert job.deploy()["decision"] == "start-clean"

    def wait_for_rows(count: int) -> None:
        wait_until(lambda: job.show()["state"] == "stopped", seconds=120, what="the job has ended")
        ended = node.run(f"SELECT count(*) FROM {job.table}", reader)
        assert node.result(ended["id"])["rows"] == [[str(count)]]

    wait_for_rows(3)
    assert job.deploy()["decision"] == "none"
    assert job.act("start", clean=False)["state"] == "applied"
    wait_for_rows(3)
    assert job.act("start", clean=True)["state"] == "applied"
    wait_for_rows(6)


def test_a_job_that_was_never_deployed_can_be_deleted(reader: str, job: CountingJob) -> None:
    job.replace_file()
    job.manifest["sql"] = job.manifest["sql"].replace("count(*)", "sum(raise_error('broken'))")
    job.manifest["spark-properties"]["spark.headrace.retry.min.backoff"] = "100ms"
    job.apply(job.plan())
    assert job.show()["state"] == "failed"
    deleted = job.node.http.delete(f"/api/v1/jobs/{job.name}")
    ended = job.wait_for_end(deleted.json()["id"])

    assert ended["state"] == "applied"
    assert job.node.http.get(f"/api/v1/jobs/{job.name}").status_code == 404
