"""The real checks on the real host, in one process per test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

from headrace.cli import doctor
from headrace.config.extras import install_command


def test_a_working_installation_passes_all_checks(
    node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
) -> None:
    completed = headrace("doctor", "--format", "json", HEADRACE_HTTP__PORT="0")
    checks = {check["name"]: check for check in json.loads(completed.stdout)}
    assert list(checks) == [
        *("python", "java", "spark", "store", "catalog", "results", "port", "cluster"),
        *("isolation", "node"),
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


def test_the_light_client_passes_with_a_node_and_names_a_fix_without_one(
    node: ScriptedNode, headrace: RunHeadrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_missing", lambda extra: ["uvicorn"])
    with_node = headrace("doctor")
    without_node = headrace("doctor", HEADRACE_SERVER="embedded")

    assert with_node.returncode == 0
    assert [line[0] for line in with_node.stdout.splitlines()] == ["✓", "✓"]
    assert "has only the light client: it lacks uvicorn" in with_node.stdout
    assert without_node.returncode == 2
    lines = without_node.stdout.splitlines()
    assert [line[0] for line in lines] == ["✗", " ", "!", " "]
    assert lines[1] == f"    fix: {install_command('all')}, or name a node with HEADRACE_SERVER"
    assert lines[3] == "    fix: name a node with HEADRACE_SERVER or --server"


@pytest.mark.finding("U17")
def test_every_row_that_is_not_ok_has_a_fix(headrace: RunHeadrace, tmp_path: Path) -> None:
    """Each variable makes another check fail or warn."""
    (tmp_path / "file").touch()
    completed = headrace(
        *("doctor", "--format", "json"),
        HEADRACE_STORE__URL="postgresql://127.0.0.1:1/x",
        HEADRACE_STORE__CONNECT_TIMEOUT="1s",
        HEADRACE_RESULTS__LOCATION=str(tmp_path / "file" / "results"),
        HEADRACE_HTTP__HOST="192.0.2.1",
        HEADRACE_CATALOG__KIND="memory",
        HEADRACE_SERVER="http://127.0.0.1:1",
        JAVA_HOME="/nonexistent",
    )
    checks = {check["name"]: check for check in json.loads(completed.stdout)}
    faults = {name: check for name, check in checks.items() if check["status"] != "ok"}

    assert completed.returncode == 2
    assert set(faults) >= {"java", "store", "catalog", "results", "port", "cluster", "node"}
    assert [name for name, check in faults.items() if not check["fix"]] == []
    assert "/nonexistent, which does not exist" in checks["java"]["found"]
