"""Output of real commands on a pseudo-terminal."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.cli.scripted_node import ScriptedNode
from tests.support.waiting import wait_until

from headrace.cli.output.text import display_width


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


@pytest.mark.parametrize("columns", [80, 140])
def test_values_that_are_too_wide_are_cut_and_the_next_line_says_so(
    node: ScriptedNode, environment: dict[str, str], columns: int
) -> None:
    types = [("n", "int"), ("日本", "string"), ("short", "string")]
    node.on("SELECT", columns=types, chunks=[[[1, "日" * 200, "ab"]], [[1234567, "x", "y" * 30]]])
    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"}, columns=columns)
    *table, hint = terminal.run("sql", "SELECT", "--quiet").splitlines()
    assert hint == (
        "1 value is cut to fit the terminal. Add --format vertical to see whole values."
    )
    assert {line.count("│") for line in table if "─" not in line} == {2}
    assert max(map(display_width, table)) <= columns
    assert display_width(table[2].partition("…")[0]) > columns - 15
    assert re.search(r"日… ? │ ab$", table[2])
    assert "1234567" in table[3]
    assert table[3].endswith("y" * 30)


def test_a_table_of_too_many_columns_is_vertical(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    names = [("a", "bigint"), ("b", "decimal(20,0)"), ("long", "string")]
    node.on("SELECT", columns=names, chunks=[[["1" * 19, "2" * 20, "x" * 60]]])
    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"}, columns=50)
    lines = terminal.run("sql", "SELECT", "--quiet").splitlines()
    values = [f"a    │ {'1' * 19}", f"b    │ {'2' * 20}", f"long │ {'x' * 60}"]
    assert lines == ["─[ 1 ]".ljust(40, "─"), *values]


@pytest.mark.finding("U5")
def test_line_breaks_in_a_cell_are_line_breaks_on_the_terminal(
    node: ScriptedNode, terminal: PseudoTerminal
) -> None:
    columns = [("n", "int"), ("s", "string"), ("t", "string")]
    node.on("SELECT", columns=columns, chunks=[[[1, "a\n  b\x1b[2J", "x"], [2, "", None]]])
    terminal.environment["NO_COLOR"] = "1"
    table = (
        " n │ s          │ t\n"
        "───┼────────────┼──────\n"
        " 1 │ a↵         │ x\n"
        "   │   b\\x1b[2J │\n"
        " 2 │            │ NULL\n"
    )
    assert terminal.run("sql", "SELECT", "--quiet") == table


@pytest.mark.finding("U5")
@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_single_text_of_several_lines_is_printed_as_it_is(
    node: ScriptedNode, environment: dict[str, str], headrace: RunHeadrace, is_terminal: bool
) -> None:
    plan = "== Physical Plan ==\n*(1) Project [1 AS 1#0]\n\t+- Scan\x1b[2J\n"
    node.on("EXPLAIN SELECT 1", columns=[("plan", "string")], chunks=[[[plan]]])
    if is_terminal:
        terminal = PseudoTerminal(environment, columns=10)
        text = terminal.run("sql", "EXPLAIN SELECT 1", "--quiet")
    else:
        text = headrace("sql", "EXPLAIN SELECT 1", "--format", "table").stdout
    assert text == plan.replace("\x1b", "\\x1b")


def test_null_is_dimmed_unlike_the_string_null(
    node: ScriptedNode, terminal: PseudoTerminal
) -> None:
    node.on("SELECT", columns=[("s", "string")], chunks=[[["NULL"], [None]]])
    assert terminal.run("sql", "SELECT", "--quiet").splitlines()[2:] == [
        " NULL",
        " \x1b[2mNULL\x1b[0m",
    ]


@pytest.mark.finding("U8")
@pytest.mark.parametrize(
    ("text", "rows_written", "footer"),
    [
        ("INSERT INTO t SELECT 1", 1000, "INSERT 1,000 rows · 1.5 s"),
        ("INSERT INTO t SELECT 1", 1, "INSERT 1 row · 1.5 s"),
        ("INSERT INTO t SELECT 1 WHERE false", 0, "INSERT 0 rows · 1.5 s"),
        ("INSERT INTO uncounted SELECT 1", None, "INSERT · 1.5 s"),
        ("CREATE OR REPLACE TABLE t AS SELECT 1", 7, "CREATE TABLE 7 rows · 1.5 s"),
        ("CREATE TABLE t (a INT)", None, "CREATE TABLE · 1.5 s"),
        ("-- comment\ndrop view v", None, "DROP VIEW · 1.5 s"),
        ("MERGE INTO t USING s ON t.a = s.a", 3, "MERGE 3 rows · 1.5 s"),
        ("USE db", None, "USE · 1.5 s"),
    ],
)
def test_the_footer_names_the_statement_and_the_rows_that_it_has_written(
    node: ScriptedNode,
    terminal: PseudoTerminal,
    text: str,
    rows_written: int | None,
    footer: str,
) -> None:
    node.on(text, rows_written=rows_written, chunks=[[]])
    (statement_id, output) = f"st_{1:032x}", terminal.run("sql", "--verbose", "--", text)
    assert output == f"{footer} · {statement_id}\n"


def test_the_footer_has_no_id_unless_asked(node: ScriptedNode, terminal: PseudoTerminal) -> None:
    node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]])
    assert "st_" not in terminal.run("sql", "SELECT")
    other = PseudoTerminal(terminal.environment)
    assert "1 row · 1.5 s · st_" in other.run("statement", "result", "last", "-v")


@pytest.mark.finding("U14")
def test_progress_is_one_line_that_counts_from_the_submit_also_after_attach(
    node: ScriptedNode, environment: dict[str, str]
) -> None:
    statement = node._add_statement("SELECT", "se_x")
    node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]], hangs=True)
    hour_ago = datetime.now(UTC) - timedelta(hours=1, minutes=2)
    statement |= {"created_at": hour_ago.isoformat(), "progress": {"tasks_done": 1} | TASKS}
    terminal = PseudoTerminal(environment, columns=40)
    process = terminal.start("statement", "attach", "last")
    wait_until(lambda: "of 5 tasks" in terminal.text, what="the progress line")
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) == 130
    terminal.close()
    lines = re.findall(r"running · 1 h 2 min · 1 of 5 tasks[^\r\n]*", terminal.text)
    assert lines
    assert max(map(display_width, lines)) <= 40
    assert "rows read" not in terminal.text  # the line is cut and not wrapped
    assert "%" not in terminal.text
    assert not node.calls("POST", ".*/cancel")
    assert f"headrace statement attach {statement['id']}" in terminal.text
    assert "\x1b[?25h" in terminal.text.rpartition("running")[2]


TASKS = {"tasks_total": 5, "rows_read": 10**15, "bytes_read": 2**50}


def test_the_progress_line_is_drawn_and_erased(
    node: ScriptedNode, terminal: PseudoTerminal
) -> None:
    node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]], hangs=True)
    process = terminal.start("sql", "SELECT")
    wait_until(lambda: "of 4 tasks" in terminal.text, what="the progress line")
    node.finish(next(iter(node.statements)))
    process.wait(timeout=120)
    terminal.close()
    assert re.search(r"running · [\dhdmins ]+ · 1 of 4 tasks", terminal.text)
    after_progress = terminal.text.rpartition("tasks")[2]
    assert "\r\x1b[1A\x1b[2K" in after_progress.partition("1 row")[0]
    assert "\x1b[?25h" in after_progress
    assert "1 row ·" in after_progress


def test_binary_formats_are_refused_on_a_terminal(
    node: ScriptedNode, terminal: PseudoTerminal
) -> None:
    assert terminal.start("sql", "SELECT", "--format", "parquet").wait(timeout=120) == 2
    terminal.close()
    assert "is binary" in terminal.text
    assert not node.statements


def test_sql_with_options_of_a_script_is_not_read_from_a_terminal(
    terminal: PseudoTerminal,
) -> None:
    assert terminal.start("sql", "--detach").wait(timeout=120) == 2
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
    terminal.start(*command, *([] if command[0] != "sql" else ["--quiet"])).wait(timeout=120)
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
