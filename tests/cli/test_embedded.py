"""Commands that start the node of their home. No session is opened, so that no Spark starts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND, CompletedCommand
from tests.support.waiting import wait_until

LIST = [*COMMAND, "session", "list", "--server", "embedded", "--format", "json"]


@pytest.fixture
def existing_home(home: Path) -> Iterator[Path]:
    """Create a home, so that commands that only read may start a node in it."""
    home.mkdir()
    yield home
    wait_until(lambda: not (home / "node.json").exists(), what="the end of the node")


def run(command: list[str], **variables: str) -> CompletedCommand:
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def count_starts(home: Path) -> int:
    return (home / "logs" / "node.log").read_text().count(" serves ")


def test_two_commands_at_the_same_time_start_one_node(existing_home: Path) -> None:
    """The node file of a node that was killed does not disturb the start."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    node_file = {"address": "http://127.0.0.1:1", "token": None, "pid": ended.pid}
    node_file |= {"node_id": "no_1", "embedded": True}
    (existing_home / "node.json").write_text(json.dumps(node_file))
    pipe = subprocess.PIPE
    commands = [subprocess.Popen(LIST, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    assert [command.communicate(timeout=150) for command in commands] == [("[]\n", "")] * 2
    assert [command.returncode for command in commands] == [0, 0]
    assert count_starts(existing_home) == 1


def test_the_error_of_a_node_that_does_not_start_is_shown(existing_home: Path) -> None:
    completed = run(LIST, HEADRACE_STORE__URL="mysql://nowhere")
    assert completed.returncode == 2
    assert "mysql://nowhere" in completed.stderr
    assert str(existing_home / "logs" / "node.log") in completed.stderr


def test_a_command_that_only_reads_creates_no_home(home: Path) -> None:
    completed = run(LIST)
    assert completed.returncode == 3
    assert f"the home {home} does not exist" in completed.stderr
    assert not home.exists()


def test_a_home_that_cannot_be_written_is_refused(home: Path) -> None:
    home.touch()
    completed = run(LIST)
    assert completed.returncode == 2
    assert f"The home {home} cannot be written" in completed.stderr


def test_serve_replaces_its_process_by_a_node(home: Path) -> None:
    node = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        wait_until((home / "node.json").exists, seconds=90, what="the start of the node")
        node_file = json.loads((home / "node.json").read_text())
        assert node_file["pid"] == node.pid
        assert run([*LIST, "--server", node_file["address"]]).stdout == "[]\n"
    finally:
        node.terminate()
        node.communicate(timeout=30)
    assert node.returncode == 0
