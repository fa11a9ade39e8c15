"""A job whose state is in S3: manifest, checkpoints and savepoints."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import s3fs
from tests.support.aws import account, moto_server
from tests.support.jobs import CountingJob
from tests.support.node import NodeProcess
from tests.support.s3 import s3_conf, s3_jars

pytestmark = [pytest.mark.spark, pytest.mark.s3]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Return the location of an empty bucket."""
    with moto_server() as endpoint:
        yield f"s3://{urlsplit(account(endpoint).results).netloc}"


@pytest.fixture(scope="module")
def node(bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    assert bucket
    endpoint = os.environ["AWS_ENDPOINT_URL_S3"]
    conf = {f"spark.hadoop.{key}": value for key, value in s3_conf(endpoint).items()}
    conf["spark.jars"] = ",".join(map(str, s3_jars()))
    process = NodeProcess(
        tmp_path_factory.mktemp("node") / "home",
        PROFILES=json.dumps({"default": {"conf": conf}}),
    )
    yield process
    process.close()


def test_a_job_keeps_its_state_in_s3(node: NodeProcess, bucket: str, tmp_path: Path) -> None:
    job = CountingJob(node, tmp_path, state_location=f"{bucket}/jobs")
    reader = node.session(name="jobs-default")
    node.wait_running(reader)
    job.replace_file()
    assert job.deploy()["decision"] == "start-clean"
    job.wait_for_count(reader, 10)
    job.manifest["trigger"] = "2 seconds"
    job.replace_file()
    assert job.deploy()["decision"] == "restart-from-savepoint"
    job.wait_for_count(reader, 20)

    files = [path.partition("/jobs/")[2] for path in s3fs.S3FileSystem().find(bucket)]
    savepoints = [each["place"] for each in job.show()["savepoints"]]
    checkpoints = [each for each in files if each.startswith("checkpoints/counts/1/")]
    assert "manifests/counts.yaml" in files
    assert [f"{bucket}/jobs/{each}" for each in files if each.endswith("_metadata")] == [
        f"{each}/_metadata" for each in savepoints
    ]
    assert len({each.split("/")[3] for each in checkpoints}) == 2

    missing = "s3://no-such-bucket/jobs"
    other = CountingJob(node, tmp_path / "other", name="other", state_location=missing)
    other.replace_file()
    [problem] = other.plan()["errors"]
    assert problem["code"] == "state_location_unusable"
