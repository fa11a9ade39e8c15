"""Jobs that follow files, with a real node and Spark: local files in `code`, and S3 in `sql`."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from s3fs import S3FileSystem
from tests.support.aws import account, moto_server
from tests.support.node import NodeProcess
from tests.support.s3 import s3_conf, s3_jars
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.s3]

ROW = '{"n": 1}\n'
QUICK = {"poll": "1s", "settle": "1s"}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Return the name of an empty bucket."""
    with moto_server() as endpoint:
        yield urlsplit(account(endpoint).results).netloc


@pytest.fixture
def node(bucket: str, tmp_path: Path) -> Iterator[NodeProcess]:
    endpoint = os.environ["AWS_ENDPOINT_URL_S3"]
    conf = {f"spark.hadoop.{key}": value for key, value in s3_conf(endpoint).items()}
    conf["spark.jars"] = ",".join(map(str, s3_jars()))
    watched = {str(tmp_path): ["*"], f"s3://{bucket}": ["*"]}
    process = NodeProcess(
        tmp_path / "home",
        PROFILES=json.dumps({"default": {"conf": conf}}),
        JOBS=json.dumps({"watched_locations": watched}),
    )
    yield process
    process.close()


def _deploy(node: NodeProcess, manifest: dict[str, Any]) -> None:
    text = json.dumps({"metadata-columns": False, **manifest})
    body = {"manifests": [{"path": "job.yaml", "text": text}]}
    planned = node.http.post("/api/v1/deployments", json=body)
    assert planned.status_code == 201, planned.text
    path = f"/api/v1/deployments/{planned.json()['id']}"
    wait_until(lambda: node.http.get(path).json()["state"] == "planned", seconds=120)
    assert node.http.post(f"{path}/apply").status_code == 202
    wait_until(lambda: node.http.get(path).json()["state"] == "applied", seconds=120)


def _await_runs(node: NodeProcess, job: str, count: int) -> list[dict[str, Any]]:
    def list_ended() -> list[dict[str, Any]] | None:
        items = node.http.get("/api/v1/runs", params={"job": job}).json()["items"][::-1]
        has_ended = len(items) >= count and all(each["ended_at"] for each in items)
        return items if has_ended else None

    found = wait_until(list_ended, seconds=240, what="the runs have ended")
    assert [each["state"] for each in found] == ["succeeded"] * count, found
    return [node.http.get(f"/api/v1/runs/{each['id']}").json() for each in found]


def test_a_file_that_is_written_slowly_starts_one_run_that_reads_it(
    node: NodeProcess, tmp_path: Path
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    _deploy(
        node,
        {
            "name": "load",
            "schedule": {"on-files": str(directory), "pattern": "*.json", **QUICK, "settle": "6s"},
            "target-table": "loaded",
            "code": "execution_output = spark.read.json(input_files).selectExpr('n')",
        },
    )
    file = directory / "day=1" / "a +50%.json"
    file.parent.mkdir()
    file.touch()
    pause = threading.Event()
    with file.open("a") as writer:
        for _ in range(10):
            pause.wait(0.7)
            writer.write(ROW)
            writer.flush()
    [run] = _await_runs(node, "load", 1)
    uri = f"file:{directory}/day=1/a%20+50%25.json"
    assert run["input_files"] == [uri]
    assert run["inputs"][0]["location"] == str(directory)
    assert run["inputs"][0]["file_count"] == 1
    assert node.rows("SELECT count(*) FROM loaded") == [["10"]]
    # This is the name that Spark has for the file.
    query = f"SELECT DISTINCT _metadata.file_path FROM json.`{directory}`"
    assert node.rows(query) == [[uri]]
    (directory / "b.json").write_text(ROW)
    _first, second = _await_runs(node, "load", 2)
    assert second["input_files"] == [f"file:{directory}/b.json"]
    assert node.rows("SELECT count(*) FROM loaded") == [["11"]]


def test_a_query_selects_the_new_objects_of_a_bucket(
    node: NodeProcess, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    location = f"s3a://{bucket}/in"
    system = S3FileSystem()
    system.pipe_file(f"{bucket}/in/a b.json", ROW.encode())
    node.rows(f"CREATE TABLE arrivals (n INT) USING json LOCATION '{location}'")
    _deploy(
        node,
        {
            "name": "pick",
            "schedule": {"on-files": location, **QUICK},
            "target-table": "picked",
            "sql": "SELECT n, _metadata.file_name AS file FROM arrivals"
            " WHERE array_contains(:input_files, _metadata.file_path)",
        },
    )
    _await_runs(node, "pick", 1)
    system.pipe_file(f"{bucket}/in/c.json", ROW.encode())
    _first, second = _await_runs(node, "pick", 2)
    assert second["input_files"] == [f"{location}/c.json"]
    assert node.rows("SELECT file FROM picked ORDER BY file") == [["a%20b.json"], ["c.json"]]
    # The second run has listed both files, and has read the new one alone.
    read = [each for each in caplog.messages if f"GET /{bucket}/in/a%20b.json" in each]
    assert len(read) == 1
    # A run that a user starts has no files, unless it is that of a time that has some.
    answer = node.http.post("/api/v1/jobs/pick/runs", json={})
    assert answer.status_code == 201, answer.text
    again = node.http.post("/api/v1/jobs/pick/runs", json={"at": second["logical_time"]})
    assert again.json()["input_files"] == second["input_files"], again.text
    _await_runs(node, "pick", 4)
    assert node.rows("SELECT count(*) FROM picked") == [["3"]]
