"""Commands that start the node of their home. No session is opened, so no Spark starts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import COMMAND
from tests.cli.scripted_node import ScriptedNode
from tests.support.waiting import wait_until

from headrace.cli import discovery
from headrace.cli.home import read_node_file

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


def write_node_file(home: Path, address: str, **fields: Any) -> None:
    record = {"address": address, "token": None, "pid": os.getpid(), "node_id": "no_1"}
    (home / "node.json").write_text(json.dumps(record | {"embedded": True} | fields))


def starts(home: Path) -> int:
    return (home / "logs" / "node.log").read_text().count(" serves ")


def test_two_commands_at_once_start_one_node(made_home: Path) -> None:
    """In spite of the file that a killed node left behind."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    write_node_file(made_home, "http://127.0.0.1:1", pid=ended.pid)
    pipe = subprocess.PIPE
    both = [subprocess.Popen(LIST, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60) for process in both] == [("[]\n", "")] * 2
    assert [process.returncode for process in both] == [0, 0]
    assert starts(made_home) == 1


def test_another_node_at_the_same_address_is_not_taken_for_it(home: Path) -> None:
    home.mkdir()
    with ScriptedNode() as node:
        write_node_file(home, node.address, node_id="no_other", token="secret")
        assert discovery.answering(read_node_file(home)) is None
        write_node_file(home, node.address, node_id=node.node_id, token="secret")
        found = discovery.answering(read_node_file(home))
        assert found is not None
        found.client.close()
        assert {request.path for request in node.requests} == {"/health"}


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


def test_a_home_that_cannot_be_written(home: Path) -> None:
    home.touch()
    done = run(LIST)
    assert done.returncode == 2
    assert f"The home {home} cannot be written" in done.stderr


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
