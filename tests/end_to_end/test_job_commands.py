"""`headrace deploy` and `headrace job` on the examples of the repository, with a real node."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark
EXAMPLES = Path(__file__).parents[2] / "examples" / "ticks"
NAMES = ["even-ticks", "shouting", "tick-counts", "tick-log", "two-queries"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(tmp_path_factory.mktemp("node") / "home")
    yield process
    process.close()


def run(
    node: NodeProcess, *arguments: str, folder: Path | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command against the node, and check its exit code."""
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
    assert process.returncode == code, process.stdout + process.stderr
    return process


def test_the_examples_are_planned_deployed_and_operated(node: NodeProcess, tmp_path: Path) -> None:
    examples = tmp_path / "examples"
    shutil.copytree(EXAMPLES, examples)
    planned = run(node, "deploy", str(examples), "--plan", "--detailed-exitcode", code=10)
    assert [line.split()[0] for line in planned.stdout.splitlines()[:-1]] == NAMES
    assert planned.stdout.count("start-clean") == len(NAMES)

    refused = run(node, "deploy", str(examples), code=2)
    assert "--yes" in refused.stderr
    deployed = run(node, "deploy", str(examples), "--yes")
    assert sorted(deployed.stderr.splitlines()) == [f"{name}: is deployed" for name in NAMES]
    listed = json.loads(run(node, "job", "list", "--format", "json").stdout)
    assert [(job["name"], job["state"]) for job in listed] == [(name, "running") for name in NAMES]
    assert {job["session"] for job in listed} == {"jobs-default"}

    def has_rows() -> bool:
        [[count]] = node.rows("SELECT count(*) FROM tick_log WHERE __query_name = 'tick-log'")
        return int(count) > 0

    wait_until(has_rows, seconds=120, what="the table has rows")
    unchanged = run(node, "deploy", str(examples), "--plan", "--detailed-exitcode")
    assert unchanged.stdout.endswith("0 of 5 jobs change.\n")

    # A saved plan is applied as shown, and only once.
    (examples / "jobs" / "shouting.yaml").unlink()
    manifest = examples / "jobs" / "tick-log.yaml"
    manifest.write_text(manifest.read_text().replace("in a table", "in one table"))
    plan = str(tmp_path / "plan.json")
    saved = run(node, "deploy", str(examples), "--plan", "--prune", "--save", plan)
    assert "restart-from-savepoint v1" in saved.stdout
    assert "changed: description" in saved.stdout
    assert "shouting     stop" in saved.stdout
    applied = run(node, "deploy", "--apply", plan, "--yes")
    assert "shouting: is deleted" in applied.stderr
    assert "tick-log: is deployed" in applied.stderr
    again = run(node, "deploy", "--apply", plan, "--yes", code=6)
    assert "is applied" in again.stderr

    assert "is stopped" in run(node, "job", "stop", "tick-log").stderr
    assert "savepoint" in run(node, "job", "savepoint", "tick-log").stderr
    assert "is deployed" in run(node, "job", "start", "tick-log").stderr
    shown = run(node, "job", "show", "tick-log").stdout
    assert "verified" in shown
    assert "in one table" in shown
    history = json.loads(run(node, "job", "history", "tick-log", "--format", "json").stdout)
    assert [version["revision"] for version in history] == [2, 1]
    run(node, "job", "delete", "tick-log", "--yes")
    assert "no job 'tick-log'" in run(node, "job", "show", "tick-log", code=2).stderr


def test_errors_of_all_files_are_printed_at_once(node: NodeProcess, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: a\nsql: SELECT 1\nkode: x\n")
    (tmp_path / "b.yaml").write_text("name: b\ntarget-table: t\nsql: SELECT ${MISSING_NAME}\n")
    (tmp_path / "c.yaml").write_text("name: [\n")
    process = run(node, "deploy", str(tmp_path), "--plan", code=2)

    for expected in ("a.yaml:3:1", "`code`", "b.yaml:3", "MISSING_NAME", "c.yaml:2", "target"):
        assert expected in process.stderr, process.stderr
    assert "nothing was changed" in process.stderr


def test_the_schema_of_manifests_is_printed_without_a_node() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "headrace.cli", "job", "schema"],
        capture_output=True,
        text=True,
        check=True,
    )
    schema = json.loads(process.stdout)

    assert "target-table" in schema["properties"]
