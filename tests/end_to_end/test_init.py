"""The project of `headrace init` on the node that its commands start: deployed, run and changed."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

JOBS = ["even-ticks", "load-orders", "report-revenue", "tick-log"]
DAY = datetime.now(UTC).date() - timedelta(days=2)


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the folder of a project, whose embedded node lives until the end."""
    folder = home.parent / "project"
    home = folder / ".headrace"
    home.mkdir(parents=True)
    monkeypatch.setenv("HEADRACE_HOME", str(home))
    monkeypatch.setenv("HEADRACE_SERVER", "embedded")
    monkeypatch.setenv("HEADRACE_PROFILES", '{"default": {"start_timeout": "5m"}}')
    with (home / "commands.lock").open("w") as lock:
        # The node counts the holder of this lock as a command that still runs.
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield folder
    _headrace(folder, "stop", "--drivers")


def _headrace(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=280,
        check=False,
    )
    assert process.returncode == code, process.stdout + process.stderr
    return process


def _await_run(folder: Path, job: str) -> None:
    def has_ended() -> bool:
        listed = _headrace(folder, "job", "runs", job, "--format", "json").stdout
        states = [run["state"] for run in json.loads(listed)]
        assert set(states) <= {"due", "running", "succeeded"}, listed
        return states == ["succeeded"]

    wait_until(has_ended, seconds=240, what=f"{job} has run")


def _rows(folder: Path, query: str) -> list[dict[str, Any]]:
    output = _headrace(folder, "sql", query, "--format", "json").stdout
    return [dict(row) for row in json.loads(output)]


def test_a_new_project_is_planned_deployed_run_and_checked_against_a_change(project: Path) -> None:
    assert "8 files written" in _headrace(project, "init").stderr
    planned = _headrace(project, "deploy", ".", "--plan", "--detailed-exitcode", code=10)
    assert planned.stdout.count("start-clean") == len(JOBS)
    assert "note: next runs: " in planned.stdout
    assert "breaks" not in planned.stdout
    deployed = _headrace(project, "deploy", ".", "--yes")
    assert sorted(deployed.stderr.splitlines())[-4:] == [f"{name}: is deployed" for name in JOBS]

    _headrace(project, "job", "run", "load-orders", "--at", f"{DAY:%Y-%m-%d}T02:00Z")
    _await_run(project, "load-orders")
    _await_run(project, "report-revenue")
    assert "has-region" in _headrace(project, "job", "check", "load-orders").stdout
    amounts = (
        "SELECT region, count(*) AS n, sum(amount) AS a FROM orders GROUP BY region ORDER BY 1"
    )
    assert _rows(project, amounts) == [
        {"region": "north", "n": 8, "a": 88},
        {"region": "south", "n": 8, "a": 96},
        {"region": "west", "n": 8, "a": 104},
    ]
    total = _rows(project, "SELECT sum(large_orders) AS n, sum(amount) AS a FROM revenue")
    assert total == [{"n": 14, "a": 288}]

    manifest = project / "jobs" / "load-orders.yaml"
    written = manifest.read_text()
    manifest.write_text(written.replace("AS amount,", "AS price,"))
    plan = ["deploy", ".", "--plan", "--refuse-breaking"]
    [broken] = json.loads(_headrace(project, *plan, "--format", "json", code=11).stdout)["breaking"]
    assert (broken["kind"], broken["name"]) == ("job", "report-revenue")
    script = (project / "jobs" / "report-revenue.yaml").read_text().partition("script: |\n")[2]
    line = script.splitlines()[broken["line"] - 1]
    assert line[broken["column"] + 1 :].startswith("amount")
    shown = _headrace(project, *plan, code=11)
    assert (
        "breaks job report-revenue: column amount of orders no longer exists after the change of"
        " load-orders (line 10, column 20)"
    ) in shown.stdout
    assert "Nothing was changed." in shown.stderr
    # A further column breaks nothing.
    manifest.write_text(written.replace("AS amount,", "AS amount, 1 AS price,"))
    assert "breaks" not in _headrace(project, *plan).stdout
