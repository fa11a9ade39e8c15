"""Commands that start the node of their home. No session is opened, so that no Spark starts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND, CompletedCommand
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout
from headrace.files.file_locks import lock_file

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


@contextmanager
def lasting_nodes(home: Path) -> Iterator[None]:
    """Let the nodes that commands start stay until the end of the block."""
    # A node counts the holder of this lock as a command that still runs.
    descriptor = lock_file(HomeLayout.at(home).commands_lock, shared=True)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def lingering_node(home: Path) -> Iterator[int]:
    """Let a command start an embedded node that stays until the end of the block; yield its pid."""
    with lasting_nodes(home):
        assert run(LIST).stdout == "[]\n"
        yield read_pid(home)


@contextmanager
def serving_node(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `headrace serve` during the block."""
    node = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield node
    finally:
        node.terminate()
        node.communicate(timeout=120)


def read_pid(home: Path) -> int:
    return int(json.loads((home / "node.json").read_text())["pid"])


def serves(home: Path, node: subprocess.Popen[str]) -> bool:
    return (home / "node.json").exists() and read_pid(home) == node.pid


def test_two_commands_at_the_same_time_start_one_node(existing_home: Path) -> None:
    """The node file of a node that was killed does not disturb the start."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    node_file = {"address": "http://127.0.0.1:1", "token": None, "pid": ended.pid}
    node_file |= {"node_id": "no_1", "embedded": True, "token_in_home": False, "version": "0"}
    (existing_home / "node.json").write_text(json.dumps(node_file))
    pipe = subprocess.PIPE
    # The node outlives the first command, if the second one is slow to begin.
    with lasting_nodes(existing_home):
        commands = [subprocess.Popen(LIST, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
        assert [command.communicate(timeout=240) for command in commands] == [("[]\n", "")] * 2
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


@pytest.mark.parametrize("command", [LIST, [*COMMAND, "serve", "--port", "0"]])
def test_a_home_that_cannot_be_written_is_refused(home: Path, command: list[str]) -> None:
    home.touch()
    completed = run(command)
    assert completed.returncode == 2
    assert f"The home {home} cannot be written" in completed.stderr


def test_serve_replaces_its_process_by_a_node(home: Path) -> None:
    with serving_node(home) as node:
        wait_until(lambda: serves(home, node), seconds=120, what="the start of the node")
        address = json.loads((home / "node.json").read_text())["address"]
        assert run(LIST).stdout == "[]\n"
        token = (home / "token").read_text()
        command = [*LIST, "--server", address]
        assert run(command, HEADRACE_TOKEN=token).stdout == "[]\n"
    assert node.returncode == 0


@pytest.mark.finding("U1")
def test_serve_takes_the_place_of_the_node_that_a_command_has_started(home: Path) -> None:
    home.mkdir()
    with lingering_node(home) as embedded, serving_node(home) as node:
        # A command that comes while the node starts waits for it.
        assert run(LIST).stdout == "[]\n"
        wait_until(lambda: serves(home, node), seconds=120, what="the start of the node")
        assert read_pid(home) != embedded
        assert run(LIST).stdout == "[]\n"
    assert node.returncode == 0
    assert count_starts(home) == 1


@pytest.mark.finding("U1")
def test_commands_wait_for_a_node_that_is_starting(existing_home: Path) -> None:
    starting = lock_file(HomeLayout.at(existing_home).start_lock)
    assert starting is not None
    pipe = subprocess.PIPE
    with subprocess.Popen(LIST, stdout=pipe, stderr=pipe, text=True) as command:
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(timeout=1.5)
        os.close(starting)
        assert command.communicate(timeout=120) == ("[]\n", "")


@pytest.mark.finding("U1")
def test_a_second_node_is_refused_and_stop_ends_the_first(home: Path) -> None:
    with serving_node(home) as node:
        wait_until(lambda: serves(home, node), seconds=120, what="the start of the node")
        second = run([*COMMAND, "serve", "--port", "0"])
        assert second.returncode == 2
        assert second.stderr == (
            f'headrace: Process {node.pid}, started by "headrace serve", still serves the home '
            f"{home}. (Stop it now with headrace stop, or choose another home with --home.)\n"
        )
        stopped = run([*COMMAND, "stop"])
        assert (stopped.returncode, stopped.stdout) == (0, "")
        assert f'Stopped process {node.pid}, started by "headrace serve"' in stopped.stderr
        assert node.wait(timeout=120) == 0
    again = run([*COMMAND, "stop"])
    assert (again.returncode, again.stderr) == (0, f"No node serves the home {home}.\n")


@pytest.mark.finding("U1")
def test_stop_and_status_name_the_node_that_a_command_has_started(home: Path) -> None:
    home.mkdir()
    with lingering_node(home) as pid:
        status = json.loads(run([*COMMAND, "status", "--format", "json"]).stdout)
        assert (status["home"], status["home_set_by"]) == (str(home), "HEADRACE_HOME")
        assert (status["pid"], status["started_by"]) == (pid, "headrace sql")
        assert status["address"].startswith("http://127.0.0.1:")
        assert status["since"] is not None
        assert (status["sessions"], status["error"]) == ([], None)
        stopped = run([*COMMAND, "stop"])
        assert f'Stopped process {pid}, started by "headrace sql"' in stopped.stderr
        assert "Its drivers have ended; named sessions remain." in stopped.stderr
        # The home is free: the next command starts another node.
        assert run(LIST).stdout == "[]\n"
        assert read_pid(home) != pid


def test_serve_in_the_background_returns_when_the_node_serves(home: Path) -> None:
    started = run([*COMMAND, "serve", "--background", "--port", "0"])
    assert started.returncode == 0, started.stderr
    assert f"Process {read_pid(home)} serves the home {home}" in started.stderr
    assert run(LIST).stdout == "[]\n"
    assert run([*COMMAND, "stop", "--drivers"]).returncode == 0
    refused = run(
        [*COMMAND, "serve", "--background", "--port", "0"], HEADRACE_STORE__URL="mysql://"
    )
    assert refused.returncode == 2
    assert "The node did not start" in refused.stderr
