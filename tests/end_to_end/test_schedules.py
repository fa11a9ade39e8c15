"""Scheduled jobs with a real node and Spark: each logical time is applied once, whatever dies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.node import NodeProcess
from tests.support.processes import kill_with_descendants
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

MANIFEST = """
name: hourly
schedule: {every: 1h}
retries: {min-backoff: 100ms}
target-table: sales_by_hour
write: append
metadata-columns: false
sql: |
  SELECT :interval_start AS start, :interval_end AS stop, id AS n
  FROM range(0, 4, 1, 2)
  WHERE reflect('java.lang.Thread', 'sleep', 300L) IS NULL OR id >= 0
"""
TABLE = """
CREATE TABLE IF NOT EXISTS sales_by_hour (start TIMESTAMP, stop TIMESTAMP, n BIGINT) USING parquet
"""
CODE = """
name: files
schedule: {every: 1h}
target-table: files_by_hour
write: overwrite-partitions
partition-by: [hour]
session: dedicated
spark-properties: {spark.ui.retainedJobs: "50"}
code: |
  from pyspark.sql import functions as F
  hour = F.lit(interval_start.strftime("%H"))
  execution_output = spark.range(3).select("id", hour.alias("hour"))
"""
DAILY = """
name: daily
schedule: {cron: "@daily"}
target-table: rows_by_day
write: overwrite-partitions
partition-by: [day]
metadata-columns: false
sql: SELECT id, date(:interval_start) AS day FROM range(3)
"""
FRESH = """
name: fresh
schedule: {max-lag: 1min}
target-table: fresh_copy
metadata-columns: false
sql: SELECT id FROM source JOIN seen USING (id)
"""
REFRESH = """
name: refresh
schedule: {max-lag: 1min}
script: REFRESH MATERIALIZED VIEW counted
"""
REPORT = """
name: report
schedule: {all: [{cron: "0 6 * * *"}, {after: [daily]}]}
target-table: days_with_rows
write: overwrite-partitions
partition-by: [day]
metadata-columns: false
sql: |
  SELECT count(*) AS n, date(:interval_end) AS day FROM rows_by_day
  WHERE day + INTERVAL 1 DAY > :interval_start AND day + INTERVAL 1 DAY <= :interval_end
"""
BEGAN_AT = datetime.now(UTC)
INTERVALS = {"from": "2026-03-29T00:00:00Z", "to": "2026-03-29T04:00:00Z"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path / "home")
    yield process
    process.close()


@pytest.fixture
def deployed(node: NodeProcess, tmp_path: Path) -> NodeProcess:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "hourly.yaml").write_text(MANIFEST)
    (folder / "tables.sql").write_text(TABLE)
    command = [*("deploy", "hourly.yaml"), "--definitions", "tables.sql", "--yes"]
    done = _run(node, folder, *command)
    assert "next runs: " in done.stdout
    assert "hourly: is deployed" in done.stderr
    return node


def _run(node: NodeProcess, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=node.client_environment,
        cwd=folder,
        timeout=240,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process


def _runs(node: NodeProcess, job: str) -> list[dict[str, Any]]:
    """Return the runs of a job, without those of an hour or a day that ends during the tests."""
    page = node.http.get("/api/v1/runs", params={"job": job}).json()
    items: list[dict[str, Any]] = page["items"]
    return [
        run
        for run in items
        if run["trigger"] != "schedule" or datetime.fromisoformat(run["logical_time"]) < BEGAN_AT
    ]


def _await_end(node: NodeProcess, count: int, job: str = "hourly") -> list[dict[str, Any]]:
    def have_ended() -> bool:
        listed = _runs(node, job)
        return len(listed) >= count and all(run["ended_at"] for run in listed)

    wait_until(have_ended, seconds=180, what="all runs have ended")
    return _runs(node, job)


def test_a_backfill_writes_each_interval_once_although_driver_and_node_are_killed(
    deployed: NodeProcess,
) -> None:
    node = deployed
    answer = node.http.post("/api/v1/jobs/hourly/backfills", json=INTERVALS | {"parallel": 2})
    assert answer.status_code == 201, answer.text
    assert len(answer.json()["intervals"]) == 4

    def find_running() -> Any:
        statements = node.http.get("/api/v1/statements", params={"state": ["running"]}).json()
        return next((each for each in statements["items"] if "INSERT" in each["statement"]), None)

    statement = wait_until(find_running, seconds=120, what="a run writes")
    session = node.describe_session(statement["session_id"])
    kill_with_descendants(psutil.Process(session["driver"]["pid"]))
    node.kill()
    node.start()
    ended = _await_end(node, 4)
    assert [run["state"] for run in ended] == ["succeeded"] * 4
    rows = node.rows(
        "SELECT date_format(start, 'HH'), count(*), count(DISTINCT n) FROM sales_by_hour"
        " WHERE start < '2026-03-30' GROUP BY 1 ORDER BY 1"
    )
    assert rows == [[hour, "4", "4"] for hour in ("00", "01", "02", "03")]
    # A time that has run is run again on request alone.
    again = node.http.post("/api/v1/jobs/hourly/runs", json={"at": "2026-03-29T02:00:00Z"})
    assert (again.status_code, again.json()["repetition"]) == (201, 1), again.text
    assert [run["state"] for run in _await_end(node, 5)] == ["succeeded"] * 5


def test_rows_and_a_view_are_kept_fresh_and_a_table_that_vanishes_fails_the_run_at_once(
    node: NodeProcess, tmp_path: Path
) -> None:
    manifest = "{name: copy, schedule: manual, target-table: copied, metadata-columns: false,"
    (tmp_path / "copy.yaml").write_text(f"{manifest} sql: SELECT id FROM source}}\n")
    for table in ("source", "copied"):
        node.rows(f"CREATE TABLE {table} (id BIGINT) USING parquet")
    node.rows("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM source")
    node.rows("INSERT INTO source VALUES (7)")
    node.rows("INSERT INTO copied VALUES (7)")
    node.rows("CREATE VIEW seen AS SELECT * FROM copied")
    (tmp_path / "fresh.yaml").write_text(f"{FRESH}---{REFRESH}")
    planned = _run(node, tmp_path, "deploy", "fresh.yaml", "--yes").stdout
    assert "at most 1 min behind the changes of source, seen;" in planned
    assert "at most 1 min behind the changes of spark_catalog.default.source;" in planned
    for job in ("fresh", "refresh"):
        [run] = _await_end(node, 1, job)
        assert (run["state"], run["trigger"]) == ("succeeded", "condition"), run
    assert node.rows("SELECT id, n FROM fresh_copy, counted") == [["7", "1"]]

    def read_lag(job: str = "fresh") -> Any:
        return node.http.get(f"/api/v1/jobs/{job}").json()["freshness"]

    assert read_lag()["lag_seconds"] == 0
    # The text of the query names a view of the catalog, and not its table.
    assert read_lag()["unwatched_tables"] == ["spark_catalog.default.copied"]
    assert read_lag("refresh")["unwatched_tables"] == []
    # A load without rows is a change, and a run that begins after it makes the rows fresh.
    node.rows("INSERT INTO source SELECT 8 WHERE false")
    assert read_lag()["lag_seconds"] > 0
    assert read_lag("refresh")["lag_seconds"] > 0
    assert node.http.post("/api/v1/jobs/fresh/runs", json={}).status_code == 201
    assert [run["state"] for run in _await_end(node, 2, "fresh")] == ["succeeded"] * 2
    assert read_lag()["lag_seconds"] == 0
    shown = _run(node, tmp_path, "job", "show", "fresh").stdout
    assert {"lag", "max_lag", "expected_run"} <= {
        line.partition(" ")[0] for line in shown.split("\n")
    }
    _run(node, tmp_path, "job", "stop", "fresh")
    _run(node, tmp_path, "job", "stop", "refresh")
    _run(node, tmp_path, "deploy", "copy.yaml", "--yes")
    node.rows("DROP TABLE source")
    answer = node.http.post("/api/v1/jobs/copy/runs", json={})
    assert answer.status_code == 201, answer.text
    path = f"/api/v1/runs/{answer.json()['id']}"
    wait_until(lambda: node.http.get(path).json()["ended_at"], seconds=240, what="the run ended")

    run = node.http.get(path).json()
    assert (run["state"], run["attempt"]) == ("failed", 1)
    assert (run["failure"]["code"], run["failure"]["condition"]) == (
        "analysis_error",
        "TABLE_OR_VIEW_NOT_FOUND",
    )
    assert "`source` cannot be found" in run["failure"]["message"]
    planned = _run(node, tmp_path, "deploy", "copy.yaml", "--plan", "--refuse-breaking").stdout
    assert "note: job copy was not analysed: The table or view `source` cannot be found" in planned


def test_code_in_a_session_of_its_own_creates_its_table_and_replaces_its_partitions(
    node: NodeProcess, tmp_path: Path
) -> None:
    (tmp_path / "files.yaml").write_text(CODE)
    _run(node, tmp_path, "deploy", "files.yaml", "--yes")
    hours = ("01", "02", "01")
    for count, hour in enumerate(hours, 1):
        at = {"at": f"2026-03-29T{hour}:00:00Z"}
        assert node.http.post("/api/v1/jobs/files/runs", json=at).status_code == 201
        ended = _await_end(node, count, "files")
        assert [run["state"] for run in ended] == ["succeeded"] * count, ended
    rows = node.rows(
        "SELECT hour, count(*), count(DISTINCT id), max(__query_name) FROM files_by_hour"
        " WHERE hour IN ('00', '01') GROUP BY 1 ORDER BY 1"
    )
    assert rows == [["00", "3", "3", "files"], ["01", "3", "3", "files"]]
    [latest] = [run for run in ended if run["repetition"] == 1]
    shown = node.http.get(f"/api/v1/runs/{latest['id']}").json()["statements"]
    # The table is created by the first run alone.
    assert len(shown) == 1
    statement = node.http.get(f"/api/v1/statements/{shown[0]['statement']}").json()
    assert statement["atomic"] is True
    assert node.describe_session(statement["session_id"])["name"] == "job-files"


def test_the_plan_of_a_backfill_lists_the_partitions_that_its_runs_and_those_after_them_change(
    node: NodeProcess, tmp_path: Path
) -> None:
    (tmp_path / "daily.yaml").write_text(DAILY)
    (tmp_path / "report.yaml").write_text(REPORT)
    deployed = _run(node, tmp_path, "deploy", "daily.yaml", "report.yaml", "--yes")
    assert "a run starts: At 06:00 every day, UTC, and after daily" in deployed.stdout
    times = ["--from", "2026-03-28T00:00Z", "--to", "2026-03-30T00:00Z"]
    backfill = ["job", "backfill", "daily", *times]
    planned = _run(node, tmp_path, *backfill, "--dry-run", "--partitions", "--format", "json")
    partitions = [item["partitions"] for item in json.loads(planned.stdout)]
    assert partitions == [["day=2026-03-28"], ["day=2026-03-29"]]
    assert "2 runs of version jv_" in planned.stderr
    assert "overwrite-partitions to `rows_by_day`, partitioned by day" in planned.stderr
    assert _runs(node, "daily") == []
    _run(node, tmp_path, *backfill)
    assert [run["state"] for run in _await_end(node, 2, "daily")] == ["succeeded"] * 2
    rows = node.rows(
        "SELECT CAST(day AS STRING), count(*) FROM rows_by_day"
        " WHERE day < '2026-04-01' GROUP BY 1 ORDER BY 1"
    )
    assert rows == [["2026-03-28", "3"], ["2026-03-29", "3"]]
    # The times of the clock to which these runs belong.
    ended = _await_end(node, 2, "report")
    assert [(run["state"], run["logical_time"][:16]) for run in ended] == [
        ("succeeded", "2026-03-30T06:00"),
        ("succeeded", "2026-03-29T06:00"),
    ]
    rows = node.rows("SELECT CAST(day AS STRING), n FROM days_with_rows ORDER BY day")
    assert rows == [["2026-03-29", "3"], ["2026-03-30", "3"]]
