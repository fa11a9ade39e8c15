"""Output of real commands on a pseudo-terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.cli.scripted_node import ScriptedNode
from tests.support.waiting import wait_until


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[PseudoTerminal]:
    terminal = PseudoTerminal(environment)
    yield terminal
    terminal.close()


def test_rows_are_shown_as_a_table_with_a_footer(
    node: ScriptedNode, terminal: PseudoTerminal
) -> None:
    columns = [("n", "int"), ("name", "string")]
    node.on("SELECT", columns=columns, chunks=[[[7, "日本"], [100, None]], [[5, "a\tb\x1b[2J"]]])
    terminal.environment["NO_COLOR"] = "1"
    assert terminal.run("sql", "SELECT") == (
        "   n │ name\n"
        "─────┼──────\n"
        "   7 │ 日本\n"
        " 100 │ NULL\n"
        "   5 │ a\\tb\\x1b[2J\n"
        "3 rows · 1.5 s\n"
    )


def test_a_table_that_would_be_too_wide_is_vertical(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    node.on("SELECT", columns=[("a", "int"), ("long", "string")], chunks=[[[1, "x" * 30]]])
    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"}, columns=30)
    text = terminal.run("sql", "SELECT", "--quiet")
    assert text.splitlines() == ["─[ 1 ]".ljust(40, "─"), "a    │ 1", f"long │ {'x' * 30}"]


def test_null_is_dimmed_unlike_the_string_null(
    node: ScriptedNode, terminal: PseudoTerminal
) -> None:
    node.on("SELECT", columns=[("s", "string")], chunks=[[["NULL"], [None]]])
    assert terminal.run("sql", "SELECT", "--quiet").splitlines()[2:] == [
        " NULL",
        " \x1b[2mNULL\x1b[0m",
    ]


def test_the_progress_line_is_drawn_and_erased(
    node: ScriptedNode, terminal: PseudoTerminal
) -> None:
    node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]], hangs=True)
    process = terminal.start("sql", "SELECT")
    wait_until(lambda: "running" in terminal.text, what="the progress line")
    node.finish(next(iter(node.statements)))
    process.wait(timeout=30)
    terminal.close()
    assert re.search(r"running · [\dhdmins ]+ · 1 of 4 tasks", terminal.text)
    after_progress = terminal.text.rpartition("tasks")[2]
    assert after_progress.startswith("\r\x1b[2K")
    assert "1 row ·" in after_progress


def test_binary_formats_are_refused_on_a_terminal(
    node: ScriptedNode, terminal: PseudoTerminal
) -> None:
    assert terminal.start("sql", "SELECT", "--format", "parquet").wait(timeout=30) == 2
    terminal.close()
    assert "is binary" in terminal.text
    assert not node.statements


def test_sql_with_options_of_a_script_is_not_read_from_a_terminal(
    terminal: PseudoTerminal,
) -> None:
    assert terminal.start("sql", "--detach").wait(timeout=30) == 2
    terminal.close()
    assert "There is no SQL to run." in terminal.text


HOSTILE = "a\x1b[2Jb\x9b31mc\rd\x07\u202e"
SHOWN = "a\\x1b[2Jb\\x9b31mc\\rd\\x07\\u202e"


@pytest.mark.finding("S14")
@pytest.mark.parametrize(
    "command",
    [
        ["sql", "SELECT", "--format", "csv"],
        ["sql", "SELECT", "--format", "jsonl"],
        ["sql", "SELECT", "--format", "markdown"],
        ["sql", "SELECT", "--format", "vertical"],
        ["sql", "FAIL"],
        ["sql", "FAIL", "--debug"],
        ["sql", "REFUSED"],
        ["session", "list"],
        ["session", "show", "mine"],
        ["session", "log", "mine"],
        ["statement", "list"],
        ["status"],
    ],
    ids=" ".join,
)
def test_control_sequences_of_a_server_do_not_reach_the_terminal(
    node: ScriptedNode, environment: dict[str, str], command: list[str]
) -> None:
    node.on("SELECT", columns=[(HOSTILE, "string")], chunks=[[[HOSTILE]]])
    error = {"code": "x", "message": f"{HOSTILE}\nMore {HOSTILE}", "trace": HOSTILE}
    node.on("FAIL", state="failed", error=error)
    node.on("REFUSED", problem=(400, {"code": "x", "detail": HOSTILE, "hint": HOSTILE}))
    node.log = HOSTILE.encode()
    node._add_session({"name": "mine", "profile": HOSTILE, "catalog": HOSTILE})
    node._add_session({"name": HOSTILE})
    node._add_statement(HOSTILE, "mine")

    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"}, columns=2000)
    terminal.start(*command, *([] if command[0] != "sql" else ["--quiet"])).wait(timeout=30)
    terminal.close()

    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", terminal.text), terminal.text
    # JSON has an escape of its own.
    assert "a\\x1b[2Jb" in terminal.text or "a\\u001b[2Jb" in terminal.text


@pytest.mark.finding("S14")
def test_messages_are_escaped_in_files_but_data_are_unchanged(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node.on("SELECT", columns=[("s", "string")], chunks=[[[HOSTILE]]])
    node.on("FAIL", state="failed", error={"code": "x", "message": HOSTILE})
    assert headrace("sql", "SELECT", "--format", "tsv").stdout == f"s\n{HOSTILE}\n".replace(
        "\r", "\\r"
    )
    assert headrace("sql", "FAIL").stderr == f"error: {SHOWN}\n"
