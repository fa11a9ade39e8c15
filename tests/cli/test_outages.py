"""Commands while no node responds."""

from __future__ import annotations

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

from headrace.cli.support import follow


def test_a_submit_that_is_repeated_runs_once(node: ScriptedNode, headrace: RunHeadrace) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    node.dropped = 1  # the statement runs, but its response is lost
    completed = headrace("sql", "SELECT 1")
    assert (completed.returncode, completed.stdout) == (0, "x\n1\n")
    assert len(node.calls("POST", "/api/v1/statements")) == 2
    assert len(node.statements) == 1


def test_requests_are_retried_while_the_store_is_down(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    node.outages = 2
    assert headrace("sql", "SELECT 1").returncode == 0


@pytest.mark.finding("U3")
def test_the_id_is_shown_as_soon_as_a_statement_that_runs_on_is_accepted(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node.on("SELECT", hangs=True)
    accepted = "Statement {} was accepted.\n"
    first = headrace("sql", "SELECT", "--wait", "20ms")
    assert first.stderr.startswith(accepted.format(f"st_{1:032x}"))
    assert "was accepted" not in headrace("sql", "SELECT", "--wait", "20ms", "--quiet").stderr


@pytest.mark.finding("U3")
def test_a_command_that_gives_up_says_how_to_return_and_keeps_the_session(
    node: ScriptedNode, headrace: RunHeadrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_OUTAGE_SECONDS", 0.3)
    node.on("SELECT", hangs=True, outages=10**6)
    completed = headrace("sql", "SELECT")
    (statement,) = node.statements
    assert completed.returncode == 3
    assert "Node unreachable, retrying for up to 0.3 s" in completed.stderr
    assert f"Return to the statement with: headrace statement attach {statement}" in (
        completed.stderr
    )
    assert not node.calls("DELETE", "/api/v1/sessions/.*")


@pytest.mark.finding("U3")
def test_a_lost_result_names_the_statement(
    node: ScriptedNode, headrace: RunHeadrace, short_retries: None
) -> None:
    node.on("SELECT", columns=[("x", "bigint")], chunks=[[["1"]], [["2"]]], outages=10**6)
    completed = headrace("sql", "SELECT")
    assert completed.returncode == 3
    assert f"headrace statement attach st_{1:032x}" in completed.stderr


@pytest.mark.finding("U3")
def test_a_submit_that_is_never_confirmed_says_where_to_look(
    node: ScriptedNode, headrace: RunHeadrace, short_retries: None
) -> None:
    node.outages = 10**6
    completed = headrace("sql", "SELECT")
    assert completed.returncode == 3
    assert "may have accepted it. Check with: headrace statement list" in completed.stderr


@pytest.mark.finding("U3")
def test_the_command_to_return_names_the_node_of_this_command(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node.on("SELECT", hangs=True)
    flags = ["--server", node.address, "--home", "my home"]
    completed = headrace("sql", "SELECT", "--wait", "20ms", *flags, HEADRACE_SERVER="http://other")
    command = f"headrace statement attach st_{1:032x} --server {node.address} --home 'my home'\n"
    assert completed.stderr.endswith(command)
