"""Kinds, times and force, as the shell sends them."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Headrace
from tests.cli.scripted_node import ScriptedNode

STATEMENTS = "/api/v1/statements"


def test_a_statements_kind_and_times_are_sent(node: ScriptedNode, headrace: Headrace) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    flags = ["--kind", "batch", "--timeout", "10m", "--queue-timeout", "30s"]
    assert headrace("sql", "SELECT 1; SELECT 1", *flags).returncode == 0
    first, second = (call.body for call in node.calls("POST", STATEMENTS))
    assert first is not None
    assert second is not None
    for body in (first, second):
        assert (body["kind"], body["timeout"], body["queue_timeout"]) == ("batch", "10m", "30s")
        # Each has a session of its own.
        assert "session" not in body


def test_what_follows_a_local_statement_does_not_go_to_its_session(
    node: ScriptedNode, headrace: Headrace
) -> None:
    node.on("CANCEL STATEMENT 'x'", kind="local", columns=[("state", "string")], chunks=[[["a"]]])
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    assert headrace("sql", "CANCEL STATEMENT 'x'; SELECT 1; SELECT 1").returncode == 0
    bodies = [call.body for call in node.calls("POST", STATEMENTS)]
    assert ["session" in body for body in bodies if body is not None] == [False, False, True]


@pytest.mark.parametrize("flag", ["--timeout", "--queue-timeout"])
def test_a_time_needs_a_unit(headrace: Headrace, flag: str) -> None:
    done = headrace("sql", "SELECT 1", flag, "10")
    assert done.returncode == 2
    assert flag in done.stderr


def test_a_sessions_kind_and_times_are_sent(node: ScriptedNode, headrace: Headrace) -> None:
    flags = ["--kind", "streaming", "--idle-timeout", "5m", "--ttl", "1d"]
    assert headrace("session", "new", *flags).returncode == 0
    (call,) = node.calls("POST", "/api/v1/sessions")
    assert call.body is not None
    told = (call.body["kind"], call.body["idle_timeout"], call.body["ttl"])
    assert told == ("streaming", "5m", "1d")


@pytest.mark.parametrize("force", [False, True])
def test_a_cancel_may_be_forced(node: ScriptedNode, headrace: Headrace, force: bool) -> None:
    node.on("SELECT 2", hangs=True)
    statement = headrace("sql", "SELECT 2", "--detach").stdout.strip()
    flags = ["--force"] if force else []
    assert headrace("statement", "cancel", statement, *flags).stdout == "cancelled\n"
    (call,) = node.calls("POST", f"{STATEMENTS}/{statement}/cancel")
    assert call.query == ({"force": "true"} if force else {})
