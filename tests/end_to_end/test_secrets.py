"""Secrets stay where they must be: a marker in each place that takes a secret is searched.

The store, and the files that a driver reads at its start, must hold the secrets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.jobs import CountingJob
from tests.support.node import NodeProcess
from tests.support.processes import processes_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

MARK = "MARKER"
"""Part of every secret. The rest of a secret names its place."""
TYPED = f"{MARK}-typed"
"""A secret in the text of a statement, which the list of statements contains as typed."""
JDBC = f"jdbc:postgresql://u:{TYPED}-url@127.0.0.1:1/x?password={TYPED}-parameter"
OPTIONS = f"('url' = '{JDBC}', 'password' = '{TYPED}-option', 'dbtable' = 't')"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    profile = {"conf": {"spark.hadoop.fs.s3a.secret.key": f"{MARK}-profile"}}
    process = NodeProcess(
        tmp_path_factory.mktemp("secrets") / "home",
        PROFILES=json.dumps({"default": profile}),
        LOG_LEVEL="debug",
    )
    yield process
    process.close()


@pytest.fixture(scope="module")
def used(node: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Put a marker into each place, and return ids by the names of path parameters."""
    session = node.session(
        name="secrets",
        kind="streaming",
        conf={"spark.hadoop.fs.azure.account.key.a": f"{MARK}-session"},
    )
    broken = node.session(jars=[f"http://u:{MARK}-jar@127.0.0.1:1/x.jar"])
    job = CountingJob(node, tmp_path_factory.mktemp("job"))
    # A run without input is proven only when its time limit has passed.
    job.replace_file()
    job.manifest["spark-properties"] = {
        "spark.sql.shuffle.partitions": "1",
        "spark.hadoop.fs.s3a.access.key": "${SECRET}",
    }
    statement = node.run(
        "SHOW TABLES",
        session,
        conf={"spark.hadoop.fs.s3a.session.token": f"{MARK}-statement"},
        parameters=[],
    )
    assert statement["state"] == "success"
    # Errors, which Spark and PySpark log with the text of the statement.
    for text in (
        f"SELECT * FROM nowhere OPTIONS ('password' = '{TYPED}')",
        f"CREATE TABLE typed USING jdbc OPTIONS {OPTIONS}",
        f"SELECT nothing, map('password', '{TYPED}') FROM range(1)",
    ):
        assert node.run(text, session)["state"] == "failed"
    for text in ("CREATE STREAM ticks FROM rate", f"CREATE SINK db TO jdbc OPTIONS {OPTIONS}"):
        assert node.run(text, session)["state"] == "success"
    node.run(
        f"SAVE STREAM ticks TO db IDENTIFIED BY leaky OPTIONS ('password' = '{TYPED}')", session
    )
    streams = node.http.get("/api/v1/streams").json()["items"]
    deployed = job.apply(job.plan(variables={"SECRET": f"{MARK}-manifest"}))
    assert deployed["state"] == "applied", deployed
    wait_until(lambda: node.session_state(broken) == "failed", seconds=120, what="no jar, no start")
    return {
        "session": [session, broken, "jobs-default"],
        "statement_id": [statement["id"]],
        "stream": [stream["id"] for stream in streams],
        "name": [job.name],
        "deployment": [deployed["id"]],
    }


def read_all(node: NodeProcess, ids: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and body of every GET of the API."""
    paths = node.http.get("/api/v1/openapi.json").json()["paths"]
    for path in (path for path, calls in paths.items() if "get" in calls):
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        values = ids.get(names[0], ["none"]) if names else [""]
        for value in values:
            target = path.replace(f"{{{names[0]}}}", value) if names else path
            yield target, node.http.get(target).text
    yield "/metrics", node.http.get("/metrics").text
    yield "/api/v1/events", node.http.get("/api/v1/events", params={"limit": 1000}).text


def test_no_response_contains_a_secret(node: NodeProcess, used: dict[str, Any]) -> None:
    seen = set()
    for path, text in read_all(node, used):
        seen.add(path)
        # A text that a user has typed is answered as it is.
        sought = f"{MARK}-" if "/statements" not in path else f"{MARK}-s"
        assert sought not in text, (path, text[max(0, text.find(sought) - 200) :][:400])
    assert f"/api/v1/sessions/{used['session'][0]}" in seen
    assert f"/api/v1/streams/{used['stream'][0]}" in seen
    shown = node.http.get("/api/v1/sessions/jobs-default").json()["conf"]
    assert shown == {"spark.hadoop.fs.s3a.access.key": "*********(redacted)"}


def test_no_file_and_no_argument_contains_a_secret(node: NodeProcess, used: dict[str, Any]) -> None:
    folder = node.home.parent
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        if holds_secrets(file, node.home):
            continue
        content = file.read_bytes()
        at = content.find(f"{MARK}-".encode())
        assert at < 0, (file, content[max(0, at - 300) : at + 200])
    for process in processes_of(node.home):
        arguments = " ".join(psutil.Process(process.pid).cmdline())
        assert MARK not in arguments


def holds_secrets(file: Path, home: Path) -> bool:
    """Return whether a file must hold secrets: the store, and what a driver reads at its start."""
    return file.name.startswith("headrace.db") or (
        file.stat().st_mode & 0o777 == 0o600
        and (file.suffix in {".json", ".properties", ".conf"} and "drivers" in file.parts)
    )
