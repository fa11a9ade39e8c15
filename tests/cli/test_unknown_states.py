"""Commands that meet states of a newer node: they show the state as text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

STATE = "archived"
"""A state in which a statement or a session of a newer node has ended."""


@pytest.mark.parametrize(
    ("command", "exit_code"),
    [
        (("sql", "SELECT 1"), 1),
        (("statement", "list"), 0),
        (("statement", "show", "{statement}"), 0),
        (("statement", "result", "{statement}"), 1),
        (("statement", "wait", "{statement}"), 1),
        (("statement", "attach", "{statement}"), 1),
        (("statement", "cancel", "{statement}"), None),
        (("session", "list"), 0),
        (("session", "show", "{session}"), 0),
        (("status", "--format", "json"), 0),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else None,
)
def test_a_command_shows_an_unknown_state(
    node: ScriptedNode, headrace: RunHeadrace, command: Sequence[str], exit_code: int | None
) -> None:
    node.on("SELECT 1", state=STATE)
    assert headrace("sql", "SELECT 1").returncode == 1
    assert headrace("session", "new").returncode == 0
    statement, session = next(iter(node.statements)), next(iter(node.sessions))
    node.sessions[session]["state"] = STATE
    names = {"statement": statement, "session": session}
    completed = headrace(*(word.format(**names) for word in command))
    assert "Traceback" not in completed.stderr
    assert "internal" not in completed.stderr.lower()
    if exit_code is not None:
        assert completed.returncode == exit_code
    if command[1] in {"list", "show"}:
        assert STATE in completed.stdout
