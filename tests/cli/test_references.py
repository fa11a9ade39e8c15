"""Statements, sessions and nodes that a command names by a part of their ids, or by `last`."""

from __future__ import annotations

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

pytestmark = pytest.mark.finding("U7")

NUMBERS = [int(digits.ljust(32, "0"), 16) for digits in ("019f01", "019f02", "019f02aa")]


@pytest.fixture
def statements(node: ScriptedNode, headrace: RunHeadrace) -> list[str]:
    node.ids = [*NUMBERS]
    for number in range(3):
        node.on(f"SELECT {number}", columns=[("n", "int")], chunks=[[[number]]])
        headrace("sql", f"SELECT {number}", "--detach")
    return [*node.statements]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["result"], "n\n0\n"),
        (["attach"], "n\n0\n"),
        (["wait"], "success\n"),
    ],
    ids=" ".join,
)
def test_commands_accept_a_unique_prefix(
    statements: list[str], headrace: RunHeadrace, command: list[str], output: str
) -> None:
    completed = headrace("statement", *command, "st_019f01")
    assert (completed.returncode, completed.stdout) == (0, output)


def test_show_and_cancel_accept_a_unique_prefix(
    node: ScriptedNode, statements: list[str], headrace: RunHeadrace
) -> None:
    assert statements[0] in headrace("statement", "show", "st_019f01").stdout
    node.ids = [int("019f03".ljust(32, "0"), 16)]
    node.on("SELECT 3", hangs=True)
    headrace("sql", "SELECT 3", "--detach")
    assert headrace("statement", "cancel", "st_019f03").stdout == "cancelled\n"


def test_last_is_the_newest_statement(statements: list[str], headrace: RunHeadrace) -> None:
    assert headrace("statement", "result", "last").stdout == "n\n2\n"
    assert statements[-1] in headrace("statement", "show", "last").stdout


def test_last_without_statements_is_an_error(headrace: RunHeadrace) -> None:
    completed = headrace("statement", "show", "last")
    assert completed.returncode == 2
    assert completed.stderr == "error: You have not submitted any statement yet.\n"


def test_an_ambiguous_prefix_lists_the_candidates(
    statements: list[str], headrace: RunHeadrace
) -> None:
    completed = headrace("statement", "cancel", "st_019f02")
    assert completed.returncode == 2
    error, title, *candidates = completed.stderr.splitlines()
    assert error == (
        "error: 2 statements have ids that begin with 'st_019f02'. Add more characters."
    )
    assert title == "hint: candidates:"
    assert [line.split()[:2] for line in candidates] == [
        ["st_019f02aa00", "success"],
        ["st_019f020000", "success"],
    ]
    assert [line.split(" ago  ")[1] for line in candidates] == ["SELECT 2", "SELECT 1"]


def test_many_candidates_are_not_all_listed(node: ScriptedNode, headrace: RunHeadrace) -> None:
    for number in range(12):
        node._add_statement(f"SELECT {number}", "se_x")
    completed = headrace("statement", "show", "st_0")
    assert completed.stderr.startswith("error: More than 8 statements have ids that begin with")
    assert completed.stderr.count("SELECT") == 8


def test_an_unknown_prefix_lists_the_newest_statements(
    statements: list[str], headrace: RunHeadrace
) -> None:
    completed = headrace("statement", "show", "st_ff")
    assert completed.returncode == 2
    assert completed.stderr.startswith("error: No id of your statements begins with 'st_ff'.\n")
    assert completed.stderr.count("SELECT") == 3


def test_a_whole_id_is_not_looked_up(
    node: ScriptedNode, statements: list[str], headrace: RunHeadrace
) -> None:
    headrace("statement", "show", statements[0])
    assert node.calls("GET", "/api/v1/statements") == []


def test_sessions_are_named_by_a_prefix(node: ScriptedNode, headrace: RunHeadrace) -> None:
    ids = ["se_" + digits.ljust(32, "0") for digits in ("019f01", "019f02")]
    for id_ in ids:
        node.sessions[id_] = {**node._add_session({}), "id": id_}
    for id_ in [*node.sessions]:
        if id_ not in ids:
            del node.sessions[id_]
    assert ids[0] in headrace("session", "show", "se_019f01").stdout
    assert headrace("session", "log", "se_019f01").returncode == 0
    assert headrace("sql", "SELECT 1", "--session", "se_019f02").returncode == 0
    assert next(iter(node.statements.values()))["session_id"] == ids[1]
    assert headrace("statement", "list", "--session", "se_019f02").returncode == 0
    assert node.calls("GET", "/api/v1/statements")[-1].query["session"] == ids[1]
    assert headrace("session", "close", "se_019f02").returncode == 0
    assert node.sessions[ids[1]]["state"] == "closing"
    ambiguous = headrace("session", "close", "se_019f")
    assert ambiguous.returncode == 2
    assert "2 sessions have ids that begin with 'se_019f'" in ambiguous.stderr
    assert node.sessions[ids[0]]["state"] == "running"
    unknown = headrace("session", "show", "se_ff")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("error: There is no session 'se_ff'.\nhint: headrace session")


def test_the_name_of_a_session_takes_precedence_over_a_prefix(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node._add_session({})
    named = node._add_session({"name": "se_0"})
    assert named["id"] in headrace("session", "show", "se_0").stdout


def test_nodes_are_named_by_a_prefix(node: ScriptedNode, headrace: RunHeadrace) -> None:
    completed = headrace("node", "drain", "no_11")
    assert completed.stderr == f"Node {node.node_id} is draining.\n"
    unknown = headrace("node", "drain", "no_2")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("error: There is no node 'no_2'.\nhint: headrace node list")
