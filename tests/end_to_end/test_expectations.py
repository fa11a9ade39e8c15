"""Expectations of jobs with a real node and Spark: rows are counted as they are written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

MANIFEST = """
name: clean
schedule: manual
retries: {max-attempts: 1, min-backoff: 100ms}
target-table: clean
metadata-columns: false
sql: |
  SELECT n, amount FROM orders
expect:
  - {name: positive, condition: amount > 0, on-violation: drop}
  - {name: small, condition: amount < 9}
  - {name: numbered, condition: n IS NOT NULL, on-violation: fail}
"""
RETRIED = """
name: retried
schedule: manual
retries: {max-attempts: 0}
target-table: retried
metadata-columns: false
code: |
  execution_output = spark.sql('''
    SELECT id AS n, CASE
      WHEN id = 4 AND reflect("java.lang.System", "setProperty", "headrace.test", "x") = "null"
      THEN raise_error("the first attempt of the task fails") ELSE id END AS amount
    FROM range(0, 10, 1, 1)
  ''')
expect:
  - {name: early, condition: n > 2, on-violation: drop}
"""
STREAM = """
name: cleaned
target-table: cleaned
metadata-columns: false
trigger: 1 second
sql: |
  SELECT n, amount FROM events
expect:
  - {name: positive, condition: amount > 0, on-violation: drop}
  - {name: numbered, condition: n IS NOT NULL, on-violation: fail}
"""
MANIFESTS = ("clean.yaml", "retried.yaml", "cleaned.yaml")
TABLES = """
CREATE STREAM events (n BIGINT, amount BIGINT) FROM json OPTIONS ('path' = '{events}');
CREATE TABLE IF NOT EXISTS cleaned (n BIGINT, amount BIGINT) USING parquet;
CREATE TABLE IF NOT EXISTS orders (n BIGINT, amount BIGINT) USING parquet;
CREATE TABLE IF NOT EXISTS clean (n BIGINT, amount BIGINT) USING parquet;
CREATE TABLE IF NOT EXISTS retried (n BIGINT, amount BIGINT) USING parquet;
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    # Four attempts of each task, as on a cluster.
    process = NodeProcess(tmp_path / "home", PROFILES__DEFAULT__MASTER="local[2,4]")
    yield process
    process.close()


@pytest.fixture
def folder(node: NodeProcess, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "clean.yaml").write_text(MANIFEST)
    (folder / "retried.yaml").write_text(RETRIED)
    (folder / "cleaned.yaml").write_text(STREAM)
    (folder / "events").mkdir()
    (folder / "tables.sql").write_text(TABLES.format(events=folder / "events"))
    _deploy(node, folder)
    return folder


def _deploy(node: NodeProcess, folder: Path) -> str:
    command = ("deploy", *MANIFESTS, "--definitions", "tables.sql", "--yes")
    done = _run(node, folder, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _run(node: NodeProcess, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=node.client_environment,
        cwd=folder,
        timeout=240,
        check=False,
    )


def _run_job(node: NodeProcess, name: str = "clean") -> dict[str, Any]:
    answer = node.http.post(f"/api/v1/jobs/{name}/runs", json={})
    assert answer.status_code == 201, answer.text

    def find_ended() -> Any:
        run = node.http.get(f"/api/v1/runs/{answer.json()['id']}").json()
        return run if run["ended_at"] else None

    run: dict[str, Any] = wait_until(find_ended, seconds=240, what="the run has ended")
    return run


def _count(node: NodeProcess) -> list[Any]:
    return node.rows("SELECT count(*), count(n) FROM clean")[0]


def test_a_run_counts_and_drops_rows_in_the_pass_that_writes_them_and_publishes_nothing_on_fail(
    node: NodeProcess, folder: Path
) -> None:
    missing = _run(node, folder, "job", "check", "clean")
    assert (missing.returncode, "No run of clean has" in missing.stderr) == (1, True)
    # A table without rows proves nothing.
    empty = _run_job(node)
    assert empty["state"] == "succeeded", empty
    [results] = [each["checks"]["expectations"] for each in empty["statements"][-1:]]
    assert {each["result"] for each in results} == {"no_rows"}
    # Ten rows: three violate `positive`, one of them as NULL, and one violates `small`.
    node.rows(
        "INSERT INTO orders SELECT id, CASE WHEN id = 0 THEN NULL WHEN id < 3 THEN -id ELSE id END"
        " FROM range(10)"
    )
    run = _run_job(node)
    assert run["state"] == "succeeded", run
    checks = run["statements"][-1]["checks"]
    counted = {key: checks[key] for key in ("rows_in", "rows_dropped", "rows_written")}
    assert counted == {"rows_in": 10, "rows_dropped": 3, "rows_written": 7}
    by_name = {each["name"]: (each["violations"], each["nulls"]) for each in checks["expectations"]}
    assert by_name == {"positive": (3, 1), "small": (2, 1), "numbered": (0, 0)}
    assert _count(node) == ["7", "7"]
    checked = _run(node, folder, "job", "check", "clean")
    assert checked.returncode == 0, checked.stderr
    assert "10 rows in, 3 dropped, 7 written." in checked.stderr
    assert _run(node, folder, "job", "check", "clean", "--strict").returncode == 1
    # A row that violates `numbered`: nothing is published, and no attempt follows.
    node.rows("INSERT INTO orders VALUES (NULL, 5)")
    failed = _run_job(node)
    assert (failed["state"], failed["attempt"]) == ("failed", 1)
    assert failed["failure"]["code"] == "expectation_failed"
    assert "`numbered` by 1 of 11 rows" in failed["failure"]["message"]
    assert failed["statements"][-1]["checks"]["rows_written"] is None
    assert _count(node) == ["7", "7"]
    checked = _run(node, folder, "job", "check", "clean", "--format", "json")
    assert checked.returncode == 1
    assert json.loads(checked.stdout)[2]["violations"] == 1
    # The rows of a failed attempt of a task are not counted.
    retried = _run_job(node, "retried")
    assert retried["state"] == "succeeded", retried
    checks = retried["statements"][-1]["checks"]
    assert (checks["rows_in"], checks["rows_written"]) == (10, 7)
    statement = retried["statements"][-1]["statement"]
    path = f"/api/v1/statements/{statement}/execution"
    # The driver reports it after the end of the statement.
    wait_until(lambda: node.http.get(path).is_success, what="the execution is stored")
    execution = node.http.get(path).json()
    assert sum(stage["tasks_failed"] for stage in execution["stages"]) == 1
    # The plan shows the changed expectation.
    text = MANIFEST.replace("amount < 9", "amount < 10")
    (folder / "clean.yaml").write_text(text)
    assert "It has changed (expect)" in _deploy(node, folder)
    _check_a_stream(node, folder)


def _check_a_stream(node: NodeProcess, folder: Path) -> None:
    """Let a stream count and drop rows, and fail for a row without publishing any of its batch."""

    def add(name: str, *rows: tuple[int | None, int | None]) -> None:
        lines = [json.dumps({"n": n, "amount": amount}) for n, amount in rows]
        (folder / f".{name}").write_text("\n".join(lines))
        (folder / f".{name}").rename(folder / "events" / f"{name}.json")

    def read() -> Any:
        return node.http.get("/api/v1/jobs/cleaned/expectations").json()["stream"]

    add("first", *((n, None if n == 0 else n - 2) for n in range(10)))
    wait_until(lambda: read()["batches"] == 1, seconds=120, what="a batch is counted")
    total = read()["total"]
    counted = {key: total[key] for key in ("rows_in", "rows_dropped", "rows_written")}
    assert counted == {"rows_in": 10, "rows_dropped": 3, "rows_written": 7}
    assert [(each["violations"], each["nulls"]) for each in total["expectations"]] == [
        (3, 1),
        (0, 0),
    ]
    checked = _run(node, folder, "job", "check", "cleaned")
    assert checked.returncode == 0, checked.stderr
    assert "10 rows in, 3 dropped, 7 written." in checked.stderr
    assert _run(node, folder, "job", "check", "cleaned", "--strict").returncode == 1
    add("second", (10, 1), (None, 1))
    wait_until(lambda: read()["state"] == "failed", seconds=120, what="the stream has failed")
    assert node.rows("SELECT count(*) FROM cleaned") == [["7"]]
    checked = _run(node, folder, "job", "check", "cleaned")
    assert checked.returncode == 1
    assert "`numbered` by at least 1 row" in checked.stderr
    # The data is fixed, and the same batch runs again.
    add("second", (10, 1), (11, 1))
    assert _run(node, folder, "job", "start", "cleaned").returncode == 0
    wait_until(lambda: read()["batches"] == 2, seconds=120, what="the batch is counted")
    assert read()["total"]["rows_in"] == 12
    assert node.rows("SELECT count(*) FROM cleaned") == [["9"]]
