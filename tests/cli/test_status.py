from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

from headrace.cli.support import discovery


@pytest.mark.finding("U1")
def test_status_without_a_node_names_the_home_and_creates_nothing(
    headrace: RunHeadrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "DEFAULT_ADDRESS", "http://127.0.0.1:1")
    completed = headrace("status", HEADRACE_SERVER="")
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout == (
        f"home      {tmp_path / 'home'} (set by HEADRACE_HOME)\n"
        "node      none; the next command that needs a node starts one\n"
    )
    assert not (tmp_path / "home").exists()


def test_status_lists_live_sessions_and_their_drivers(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    headrace("session", "new", "--name", "mine")
    headrace("sql", "USE a; SELECT 1")  # its session is closing
    lines = headrace("status").stdout.splitlines()
    assert lines[1:] == [
        f"server    {node.address} (set by HEADRACE_SERVER)",
        "node      outside this home",
        f"address   {node.address}",
        "version   0",
        "since     2026-11-21T10:00:00.000000Z",
        f"sessions  mine (running), se_{2:032x} (closing)",
        "drivers   process 4711 (mine)",
    ]


def test_status_calls_the_pool_and_warm_drivers_by_their_purpose(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node._add_session({"profile": "big"})["warm"] = True
    node._add_session({})["pool"] = True
    lines = headrace("status").stdout.splitlines()
    names = ["pool of profile default", "warm driver of profile big"]
    assert lines[-2] == f"sessions  {', '.join(f'{name} (running)' for name in names)}"
    assert lines[-1] == f"drivers   {', '.join(f'process 4711 ({name})' for name in names)}"


def test_status_of_a_node_without_a_record_in_the_store(
    node: ScriptedNode, headrace: RunHeadrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "_list_nodes", lambda _request: (200, {"items": []}))
    headrace("session", "new", "--name", "mine")
    completed = headrace("status")
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines()[3:] == [
        f"address   {node.address}",
        "version   0",
        "since     unknown: the store has no record of the node",
        "sessions  mine (running)",
        "drivers   process 4711 (mine)",
    ]


def test_status_of_a_server_that_does_not_respond_is_no_error(
    headrace: RunHeadrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.status._CONNECT_SECONDS", 0.1)
    completed = headrace("status", HEADRACE_SERVER="http://127.0.0.1:1")
    assert completed.returncode == 0
    assert "node      does not respond\n" in completed.stdout
    assert "No Headrace node responds at http://127.0.0.1:1" in completed.stdout
