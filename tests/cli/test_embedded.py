"""Commands that start the node of their home. No session is opened, so no Spark starts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND
from tests.cli.scripted_node import ScriptedNode
from tests.support.waiting import wait_until

LIST = [*COMMAND, "session", "list", "--server", "embedded", "--format", "json"]


@pytest.fixture
def made_home(home: Path) -> Iterator[Path]:
    """A home that commands may read; its node has ended at the end of the test."""
    home.mkdir()
    yield home
    wait_until(lambda: not (home / "node.json").exists(), what="the node has gone")


def run(command: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def starts(home: Path) -> int:
    return (home / "logs" / "node.log").read_text().count(" serves ")


def test_two_commands_at_once_share_one_node(made_home: Path) -> None:
    pipe = subprocess.PIPE
    both = [subprocess.Popen(LIST, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    ended = [process.communicate(timeout=60) for process in both]
    assert ended == [("[]\n", "")] * 2
    assert [process.returncode for process in both] == [0, 0]
    assert starts(made_home) == 1


def test_a_node_file_that_a_killed_node_left_is_passed_over(made_home: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    record = {"address": "http://127.0.0.1:1", "token": None, "pid": ended.pid, "node_id": "no_1"}
    (made_home / "node.json").write_text(json.dumps({**record, "embedded": True}))
    assert run(LIST).returncode == 0


def test_another_node_at_the_same_address_is_not_taken_for_it(made_home: Path) -> None:
    with ScriptedNode() as stranger:
        record = {"address": stranger.address, "token": "secret", "node_id": "no_other"}
        record |= {"pid": os.getpid(), "embedded": True}
        (made_home / "node.json").write_text(json.dumps(record))
        assert run(LIST).returncode == 0
        assert {request.path for request in stranger.requests} == {"/health"}


def test_a_node_that_does_not_start_says_why(made_home: Path) -> None:
    done = run(LIST, HEADRACE_STORE__URL="mysql://nowhere")
    assert done.returncode == 2
    assert "mysql://nowhere" in done.stderr
    assert str(made_home / "logs" / "node.log") in done.stderr


def test_reading_makes_no_home(home: Path) -> None:
    done = run(LIST)
    assert done.returncode == 3
    assert f"there is nothing yet in {home}" in done.stderr
    assert not home.exists()


def test_serve_becomes_a_node(home: Path) -> None:
    node = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        wait_until((home / "node.json").exists, what="the node is up")
        record = json.loads((home / "node.json").read_text())
        assert record["pid"] == node.pid
        assert run([*LIST, "--server", record["address"]]).stdout == "[]\n"
    finally:
        node.terminate()
        node.communicate(timeout=30)
    assert node.returncode == 0
