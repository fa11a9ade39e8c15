"""Signals, sent to real processes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.cli.conftest import COMMAND
from tests.cli.scripted_node import ScriptedNode
from tests.support.waiting import wait_until

STATEMENT = "/api/v1/statements/[^/]+"


@contextmanager
def running(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def hanging(node: ScriptedNode, **script: Any) -> None:
    node.on("SELECT", hangs=True, **script)


def wait_followed(node: ScriptedNode) -> None:
    """Until the command waits for its statement's end."""
    wait_until(lambda: node.calls("GET", STATEMENT), what="a long poll")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_cancels_and_waits(
    node: ScriptedNode, environment: dict[str, str], number: signal.Signals
) -> None:
    hanging(node)
    with running(environment, "sql", "SELECT; SELECT 2") as process:
        wait_followed(node)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    (statement,) = node.statements.values()
    assert (process.returncode, out) == (130, "")
    assert err == f"Cancelled {statement['id']}.\n"
    assert statement["state"] == "cancelled"
    (session,) = node.sessions.values()
    assert session["state"] == "closing"


def test_the_truth_wins(node: ScriptedNode, environment: dict[str, str]) -> None:
    hanging(node, cancels_to="success")
    with running(environment, "sql", "SELECT") as process:
        wait_followed(node)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "ended as success before the cancel took effect" in err


def test_the_second_leaves_at_once(node: ScriptedNode, environment: dict[str, str]) -> None:
    hanging(node, cancels_to=None)
    with running(environment, "sql", "SELECT") as process:
        wait_followed(node)
        asked = len(node.calls("GET", STATEMENT))
        process.send_signal(signal.SIGINT)
        (statement,) = node.statements.values()
        wait_until(lambda: statement["state"] == "cancelling")
        wait_until(lambda: len(node.calls("GET", STATEMENT)) > asked, what="waits for its end")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=5)
    assert process.returncode == 130
    assert f"headrace statement attach {statement['id']}" in err
    assert not node.calls("DELETE", ".*")


def test_waiting_never_cancels_and_attaching_does(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    hanging(node)
    with running(environment, "sql", "SELECT", "--detach") as process:
        statement_id = process.communicate(timeout=30)[0].strip()
    for command, state in (("wait", "running"), ("attach", "cancelled")):
        before = len(node.calls("GET", STATEMENT))
        with running(environment, "statement", command, statement_id) as process:
            wait_until(lambda seen=before: len(node.calls("GET", STATEMENT)) > seen + 1)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        assert process.returncode == 130
        assert node.statements[statement_id]["state"] == state


def test_a_reader_that_goes_away_ends_the_command(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    rows = [["x" * 1000]] * 1000
    node.on("SELECT", columns=[("s", "string")], chunks=[rows] * 10)
    with running(environment, "sql", "SELECT") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=30)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 141
    (session,) = node.sessions.values()
    assert session["state"] == "closing"
