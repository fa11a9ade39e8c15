"""Every edge of the graph of deployments, on Kafka, with counts that prove the state."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.kafka import KafkaBroker, kafka_jars
from tests.support.kafka_jobs import KafkaCountingJob
from tests.support.node import NodeProcess

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(tmp_path / "kafka")
    yield broker
    broker.stop()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    profile = {"default": {"conf": {"spark.jars": ",".join(map(str, kafka_jars()))}}}
    process = NodeProcess(tmp_path / "home", PROFILES=json.dumps(profile))
    yield process
    process.close()


@pytest.fixture
def reader(node: NodeProcess) -> str:
    """Return the session that reads the counts: that of the jobs, as they share one."""
    session_id = node.session(name="jobs-default")
    node.wait_running(session_id)
    return session_id


@pytest.fixture
def job(node: NodeProcess, broker: KafkaBroker, tmp_path: Path) -> KafkaCountingJob:
    return KafkaCountingJob(node, tmp_path / "job", broker)


def test_every_edge_of_the_graph_keeps_or_resets_the_state(
    node: NodeProcess, reader: str, job: KafkaCountingJob
) -> None:
    job.replace_input()
    assert job.deploy()["decision"] == "start-clean"
    job.wait_for_count(reader, 10)
    unchanged = job.plan()
    assert [each["decision"] for each in unchanged["jobs"]] == ["none"]

    # Running, configuration changed: from the savepoint.
    job.manifest["trigger"] = "2 seconds"
    job.replace_input()
    assert job.deploy()["decision"] == "restart-from-savepoint"
    job.wait_for_count(reader, 20)

    # Running, query changed: clean.
    job.manifest["sql"] = job.manifest["sql"].replace("count(*)", "count(n)")
    job.replace_input()
    assert job.deploy()["decision"] == "restart-clean"
    job.wait_for_count(reader, 10)
    assert job.show()["version"] == 2

    # Not running, unchanged: the latest state.
    job.act("stop")
    assert job.show()["state"] == "stopped"
    runs = job.list_checkpoints()
    job.replace_input()
    assert job.deploy()["decision"] == "resume-latest"
    job.wait_for_count(reader, 20)
    # No new checkpoint; the deletion of old ones may have removed some.
    assert set(job.list_checkpoints()) <= set(runs)

    # Not running, configuration changed: from the state that is found.
    job.act("stop")
    job.manifest["description"] = "Another description"
    job.replace_input()
    assert job.deploy()["decision"] == "restart-from-savepoint"
    job.wait_for_count(reader, 30)

    # Not running, query changed: clean.
    job.act("stop")
    job.manifest["sql"] = job.manifest["sql"].replace("count(n)", "count(1)")
    job.replace_input()
    assert job.deploy()["decision"] == "restart-clean"
    job.wait_for_count(reader, 10)

    # Not running, unchanged, no state: an error with three ways out.
    job.act("stop")
    shutil.rmtree(job.folder / "state")
    planned = job.plan()
    [error] = planned["errors"]
    assert planned["state"] == "rejected"
    assert error["code"] == "job_state_missing"
    for way in ("--clean", "rollback", "deploy PATH"):
        assert way in error["hint"]

    history = node.http.get(f"/api/v1/jobs/{job.name}/versions").json()["items"]
    assert [(each["version"], each["revision"]) for each in history] == [
        (3, 5),
        (2, 4),
        (2, 3),
        (1, 2),
        (1, 1),
    ]
