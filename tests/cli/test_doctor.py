"""The real checks on the real host, in one process per test."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode


def test_a_working_installation_passes_all_checks(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
) -> None:
    completed = headrace("doctor", "--format", "json", HEADRACE_HTTP__PORT="0")
    checks = {check["name"]: check for check in json.loads(completed.stdout)}
    assert list(checks) == [
        *("python", "java", "spark", "store", "catalog", "results", "port", "cluster", "node"),
    ]
    assert completed.returncode == 0, completed.stdout
    assert {check["status"] for check in checks.values()} <= {"ok", "warning"}
    assert node.address in checks["node"]["found"]
    assert not (tmp_path / "home").exists()


def test_every_failed_check_names_a_fix(node: ScriptedNode, headrace: RunHeadrace) -> None:
    node.token = "right"
    completed = headrace("doctor", HEADRACE_LEASE__DURATION="5")
    assert completed.returncode == 2
    lines = completed.stdout.splitlines()
    assert lines[1].startswith("✗ settings: Setting 'lease.duration': '5' is")
    assert lines[2].startswith("    fix: correct the setting")
    assert lines[3].startswith("✗ node: A valid token is needed.")
    assert lines[4] == "    fix: set HEADRACE_TOKEN to the node's token"
