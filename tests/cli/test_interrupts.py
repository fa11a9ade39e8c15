"""Signals that are sent to real commands."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from tests.cli.conftest import COMMAND
from tests.cli.scripted_node import ScriptedNode
from tests.support.ports import reserved_port
from tests.support.waiting import wait_until

STATEMENT = "/api/v1/statements/[^/]+"


@contextmanager
def started_command(
    environment: dict[str, str], *arguments: str
) -> Iterator[subprocess.Popen[str]]:
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


def script_hanging_statement(node: ScriptedNode, **script: Any) -> None:
    node.on("SELECT", hangs=True, **script)


def wait_for_long_poll(node: ScriptedNode) -> None:
    """Wait until the command waits for the end of its statement."""
    wait_until(lambda: node.calls("GET", STATEMENT), what="a long poll")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_cancels_the_statement_and_waits_for_its_end(
    node: ScriptedNode, environment: dict[str, str], number: signal.Signals
) -> None:
    script_hanging_statement(node)
    with started_command(environment, "sql", "SELECT; USE a; SELECT 2") as process:
        wait_for_long_poll(node)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    (statement,) = node.statements.values()
    assert (process.returncode, out) == (130, "")
    id_ = statement["id"]
    assert err == f"Statement {id_} was accepted.\nCancelled {id_}.\n"
    assert statement["state"] == "cancelled"
    (session,) = node.sessions.values()
    assert session["state"] == "closing"


def test_a_statement_that_succeeds_before_the_cancel_is_reported_as_success(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    script_hanging_statement(node, cancels_to="success")
    with started_command(environment, "sql", "SELECT") as process:
        wait_for_long_poll(node)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "ended as success before the cancel took effect" in err


def test_the_second_signal_ends_the_command_at_once(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    script_hanging_statement(node, cancels_to=None)
    with started_command(environment, "sql", "SELECT") as process:
        wait_for_long_poll(node)
        polls = len(node.calls("GET", STATEMENT))
        process.send_signal(signal.SIGINT)
        (statement,) = node.statements.values()
        wait_until(lambda: statement["state"] == "cancelling")
        wait_until(lambda: len(node.calls("GET", STATEMENT)) > polls, what="a long poll")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"headrace statement attach {statement['id']}" in err
    assert not node.calls("DELETE", ".*")


def test_a_signal_ends_a_wait_but_not_the_statement(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    script_hanging_statement(node)
    with started_command(environment, "sql", "SELECT", "--detach") as process:
        statement_id = process.communicate(timeout=120)[0].strip()
    for command in ("wait", "attach"):
        polls = len(node.calls("GET", STATEMENT))
        with started_command(environment, "statement", command, statement_id) as process:
            wait_until(lambda polls=polls: len(node.calls("GET", STATEMENT)) > polls + 1)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=120)
        assert process.returncode == 130
        assert node.statements[statement_id]["state"] == "running"
    assert f"headrace statement attach {statement_id}" in err


def test_the_command_ends_when_its_output_is_closed(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    rows = [["x" * 1000]] * 1000
    node.on("SELECT", columns=[("s", "string")], chunks=[rows] * 10)
    with started_command(environment, "sql", "USE a; SELECT") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=120)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 141
    (session,) = node.sessions.values()
    assert session["state"] == "closing"


@pytest.mark.finding("U3")
def test_an_interrupt_during_an_outage_says_how_to_return(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    script_hanging_statement(node, outages=10**6)
    with started_command(environment, "sql", "SELECT") as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("Node unreachable, retrying" in line for line in lines)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: node.calls("POST", f"{STATEMENT}/cancel"), what="the cancel")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    (statement,) = node.statements
    assert process.returncode == 130
    assert f"headrace statement attach {statement}" in err


@pytest.mark.finding("U3")
def test_a_command_waits_for_a_configured_server_that_is_starting(
    environment: dict[str, str],
) -> None:
    with ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        server = {"HEADRACE_SERVER": f"http://127.0.0.1:{port}"}
        command = started_command(environment | server, "sql", "SELECT 1 AS x")
        process = stack.enter_context(command)
        assert process.stderr is not None
        assert "Node unreachable, retrying" in process.stderr.readline()
        node = stack.enter_context(ScriptedNode(port=port))
        node.on("SELECT 1 AS x", columns=[("x", "int")], chunks=[[[1]]])
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "x\n1\n")
    assert "The node responds again" in err
