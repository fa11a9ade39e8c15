"""The real doctor on the real host: one process with all probes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Headrace
from tests.cli.scripted_node import ScriptedNode


def test_a_sound_installation(node: ScriptedNode, headrace: Headrace, tmp_path: Path) -> None:
    done = headrace("doctor", "--format", "json", HEADRACE_HTTP__PORT="0")
    findings = {each["name"]: each for each in json.loads(done.stdout)}
    assert list(findings) == [
        *("python", "java", "spark", "store", "catalog", "results", "port", "node"),
    ]
    assert done.returncode == 0, done.stdout
    assert {each["status"] for each in findings.values()} <= {"ok", "warning"}
    assert node.address in findings["node"]["found"]
    assert not (tmp_path / "home").exists()


def test_what_is_wrong_is_told_with_a_way_to_mend_it(
    node: ScriptedNode, headrace: Headrace
) -> None:
    node.token = "right"
    done = headrace("doctor", HEADRACE_LEASE__DURATION="5")
    assert done.returncode == 2
    lines = done.stdout.splitlines()
    assert lines[1].startswith("✗ settings: Setting 'lease.duration': '5' is not a duration")
    assert lines[2].startswith("✗ node: A valid token is needed.")
    assert lines[3] == "    to mend it: set HEADRACE_TOKEN to the node's token"
