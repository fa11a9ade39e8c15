"""Backslash commands on a pseudo-terminal, against a scripted node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.scripted_node import ScriptedNode
from tests.cli.shell.conftest import NAMESPACE_QUERY, set_database, user_statements
from tests.cli.shell.shell_terminal import CTRL_C, ShellTerminal
from tests.support.waiting import wait_until

from headrace.cli.load.statements import LoadColumn, LoadPlan, from_parameter
from headrace.cli.shell.command_list import COMMANDS, COUNTERPARTS
from headrace.cli.shell.commands import CommandRunner, find_hint
from headrace.cli.shell.printer import describe_phases
from headrace.errors import InvalidRequest
from headrace.grammar.data_types import DataType

_TABLE = "SELECT * FROM t LIMIT 0"


@pytest.fixture
def open_shell(node: ScriptedNode, shell: ShellTerminal, tmp_path: Path) -> ShellTerminal:
    """Return a shell whose prompt is shown. File names begin with the folder of the test."""
    shell.open()
    shell.wait_for("default>")
    return shell


def all_statements(node: ScriptedNode) -> list[str]:
    return [statement["statement"] for statement in node.statements.values()]


def test_help_lists_every_command(open_shell: ShellTerminal) -> None:
    written = open_shell.enter("\\?", "Ctrl-D")
    assert all(command.usage in written for command in COMMANDS)
    open_shell.type("\\q\r")
    assert open_shell.process.wait(timeout=120) == 0


def test_the_list_of_commands_is_complete() -> None:
    runner = CommandRunner(*[None] * 7)  # type: ignore[arg-type]
    assert set(runner._commands) == {command.name for command in COMMANDS}


@pytest.mark.parametrize("space", [" ", "\t", " \t "])
def test_any_white_space_separates_a_command_from_its_argument(space: str) -> None:
    runner = CommandRunner(*[None] * 7)  # type: ignore[arg-type]
    received: list[str] = []

    def receive(arguments: str) -> int:
        received.append(arguments)
        return 0

    runner._commands["d"] = receive
    runner.run(f"\\d{space}sales;")
    runner.run("\\d")
    assert received == ["sales", ""]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("timming", "did you mean \\timing [on|off]? \\? lists all commands"),
        ("set", "write SET key = value for Spark's settings, or DECLARE VARIABLE name = value"),
        ("connect", "use \\c NAME"),
        ("di+", "Spark has no indexes; \\d+ NAME shows partitions and buckets"),
        ("lo_import", "\\? lists all commands"),
    ],
)
def test_an_unknown_command_names_what_does_the_same(name: str, hint: str) -> None:
    runner = CommandRunner(*[None] * 7)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="There is no command") as error:
        runner.run(f"\\{name};")
    assert error.value.hint == hint


PSQL_COMMANDS = (
    *("a", "c", "cd", "conninfo", "copy", "crosstabview", "d", "d+", "da", "db", "dC", "dd", "det"),
    *("di", "dm", "dn", "dp", "ds", "dT", "dt", "dt+", "du", "dv", "dx", "e", "echo", "encoding"),
    *("errverbose", "f", "g", "gdesc", "gexec", "gset", "gx", "h", "i", "ir", "l", "l+", "o", "p"),
    *("password", "prompt", "pset", "q", "qecho", "r", "s", "set", "sf", "sv", "t", "timing"),
    *("unset", "w", "watch", "x", "z", "!", "?"),
)


@pytest.mark.parametrize("name", PSQL_COMMANDS)
def test_every_command_that_a_user_of_psql_types_exists_or_names_what_does_the_same(
    name: str,
) -> None:
    names = {command.name for command in COMMANDS}
    assert name in names or find_hint(name) != find_hint("no such command"), name


def test_no_hint_stands_for_a_command_that_exists() -> None:
    assert not set(COUNTERPARTS) & {command.name for command in COMMANDS}


def test_the_commands_of_psql_run_statements(node: ScriptedNode, open_shell: ShellTerminal) -> None:
    lines = ["\\dt", "\\dt db.*", "\\dv a", "\\dn", "\\df", "\\df up*", "\\sv t", "\\h upper"]
    for line in lines:
        open_shell.enter(line, " · 1.5 s")
    set_database(node, "sales")
    open_shell.enter("\\c sales", "sales>")
    assert "sql-ref-syntax" in open_shell.enter("\\h create table", "describes")
    assert user_statements(node) == [
        *("SHOW TABLES", "SHOW TABLES IN db LIKE '*'", "SHOW VIEWS LIKE 'a'", "SHOW DATABASES"),
        *("SHOW USER FUNCTIONS", "SHOW FUNCTIONS LIKE 'up*'", "SHOW CREATE TABLE t"),
        *("DESCRIBE FUNCTION EXTENDED upper", "USE sales"),
    ]
    shown = open_shell.enter("\\conninfo", "database")
    assert node.address in shown
    assert "hello" in open_shell.enter("\\echo hello", "hello")


def test_g_runs_the_typed_or_the_last_statement(
    node: ScriptedNode, open_shell: ShellTerminal, tmp_path: Path
) -> None:
    assert "no statement to run" in open_shell.enter("\\g", "Type one first")
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    assert "[ 1 ]" in open_shell.enter("SELECT 1 \\gx", "1 row")
    assert "[ 1 ]" not in open_shell.enter("\\g", "1 row")
    open_shell.enter(f"\\g {tmp_path}/x.csv", "1 row")
    assert (tmp_path / "x.csv").read_text() == "x\n1\n"
    assert user_statements(node) == ["SELECT 1"] * 3
    assert "[ 1 ]" not in open_shell.enter("SELECT 1;", "1 row")


def test_e_runs_what_the_editor_leaves_and_a_program_has_the_terminal(
    node: ScriptedNode, shell: ShellTerminal, tmp_path: Path
) -> None:
    node.on("SELECT 22", columns=[("x", "int")], chunks=[[[22]]])
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i s/1/22/ $1\n")
    editor.chmod(0o700)
    shell.environment |= {"EDITOR": str(editor), "SHELL": "/bin/sh"}
    shell.open()
    shell.enter("SELECT 1;", "SELECT · ")
    assert "SELECT 22" in shell.enter("\\e", "1 row")
    (tmp_path / "f.sql").write_text("SELECT 1")
    shell.enter(f"\\e {tmp_path}/f.sql", "1 row")
    assert user_statements(node) == ["SELECT 1", "SELECT 22", "SELECT 22"]
    shell.enter("\\! echo re''ady; read a; echo got $a; exit 3", "ready")
    assert "exit code 3" in shell.enter("me", "exit code 3")
    assert "got me" in shell.plain_text
    shell.enter("SELECT 1;", "SELECT · ")


def test_tables_and_databases_are_listed_by_statements(
    node: ScriptedNode, open_shell: ShellTerminal
) -> None:
    for line in ("\\d", "\\d a.t;", "\\d+ t", "\\d db.*", "\\l"):
        open_shell.enter(line, " · 1.5 s")
    wait_until(lambda: "SHOW DATABASES" in user_statements(node))
    assert "is not a name" in open_shell.enter("\\d t; DROP TABLE t", "hint")
    assert user_statements(node) == [
        "SHOW TABLES",
        "DESCRIBE TABLE a.t",
        "DESCRIBE TABLE EXTENDED t",
        "SHOW TABLES IN db LIKE '*'",
        "SHOW CATALOGS",
        "SHOW DATABASES",
    ]


def test_vertical_rows_and_the_time_of_phases(
    node: ScriptedNode, open_shell: ShellTerminal
) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    open_shell.enter("\\x on", "Vertical rows: on.")
    assert "[ 1 ]" in open_shell.enter("SELECT 1;", "1 row")
    open_shell.enter("\\x auto", "Vertical rows: auto.")
    assert "[ 1 ]" not in open_shell.enter("SELECT 1;", "1 row")
    assert "\\x 'maybe' is not valid" in open_shell.enter("\\x maybe", "auto")
    open_shell.enter("\\timing", "Timing: on.")
    assert "total 1.5 s" in open_shell.enter("SELECT 1;", "Time:")


def test_hints_name_what_helps_at_the_prompt(node: ScriptedNode, open_shell: ShellTerminal) -> None:
    columns = [("x", "string"), ("y", "int")]
    node.on("SELECT 1", columns=columns, chunks=[[["x" * 300, 1]]], truncated=True)
    open_shell.enter("\\x off", "Vertical rows: off.")
    written = " ".join(open_shell.enter("SELECT 1;", "1 row · ").split())
    assert "1 value is cut to fit the terminal. Type \\x on" in written
    assert "start the shell with a higher --row-limit" in written


def test_a_file_of_statements_stops_at_its_first_error(
    node: ScriptedNode, open_shell: ShellTerminal, tmp_path: Path
) -> None:
    node.on("SELECT y", state="failed", error={"code": "x", "message": "Wrong."})
    file = tmp_path / "two words.sql"
    file.write_text("SELECT 1;\nSELECT y;\nSELECT 3;\n")
    written = open_shell.enter(f"\\i '{file}'", " · st_")
    assert "words.sql:2, statement 2: Wrong." in "".join(written.split("\n"))
    assert user_statements(node) == ["SELECT 1", "SELECT y"]
    open_shell.enter("\\i absent.sql", "cannot be read")
    assert "takes one file" in open_shell.enter("\\i a b", "hint")


def test_results_go_to_a_file_until_the_next_command(
    node: ScriptedNode, open_shell: ShellTerminal, tmp_path: Path
) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    file = tmp_path / "rows.jsonl"
    open_shell.enter(f"\\o {file}", "as jsonl.")
    open_shell.enter("SELECT 1; SELECT 1;", "1 row")
    open_shell.enter("\\o", "Results go to the terminal.")
    assert "x" in open_shell.enter("SELECT 1;", "1 row")
    assert file.read_text() == '{"x": 1}\n{"x": 1}\n'
    assert "writes text only" in open_shell.enter("\\o f.parquet", "hint")


def test_copy_writes_a_whole_file_or_none(
    node: ScriptedNode, open_shell: ShellTerminal, tmp_path: Path
) -> None:
    downloads = {"parquet": b"PAR1", "arrow_file": b"ARROW1", "arrow": b"stream"}
    node.on("TABLE t", columns=[("x", "int")], chunks=[[[1], [2]]], downloads=downloads)
    node.on("SELECT slow", hangs=True)
    node.on("SELECT lost", columns=[("x", "int")], chunks=[[[1]]], rows_lost=5)
    open_shell.enter(f"\\copy t to '{tmp_path}/t.csv'", "Wrote")
    assert (tmp_path / "t.csv").read_text() == "x\n1\n2\n"
    open_shell.enter(f"\\copy t to '{tmp_path}/t.parquet'", "Wrote")
    open_shell.enter(f"\\copy t to '{tmp_path}/t.arrow'", "Wrote")
    open_shell.enter(f"\\copy t to '{tmp_path}/t.arrows'", "Wrote")
    assert (tmp_path / "t.parquet").read_bytes() == b"PAR1"
    assert (tmp_path / "t.arrow").read_bytes() == b"ARROW1"
    assert (tmp_path / "t.arrows").read_bytes() == b"stream"
    open_shell.enter(f"\\copy (SELECT slow) to '{tmp_path}/slow.csv'", "running")
    open_shell.type(CTRL_C)
    open_shell.wait_for("Cancelled st_")
    open_shell.enter(f"\\copy (SELECT lost) to '{tmp_path}/lost.csv'", "incomplete")
    assert "does not name a format" in open_shell.enter("\\copy t to t.xls", "hint")
    open_shell.enter(f"\\copy t to '{tmp_path}/absent/t.csv'", "cannot be written")
    assert sorted(file.name for file in tmp_path.glob("*.*")) == [
        *("t.arrow", "t.arrows", "t.csv", "t.parquet")
    ]
    assert not list(tmp_path.glob(".*"))


def test_copy_keeps_the_mode_of_a_file_and_a_link_to_it(
    node: ScriptedNode, open_shell: ShellTerminal, tmp_path: Path
) -> None:
    node.on("TABLE t", columns=[("x", "int")], chunks=[[[1]]])
    file, link = tmp_path / "private.csv", tmp_path / "link.csv"
    file.touch(mode=0o600)
    link.symlink_to(file.name)
    open_shell.enter(f"\\copy t to '{link}'", "Wrote")
    assert link.is_symlink()
    assert file.read_text() == "x\n1\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_row_limit_is_for_the_screen_and_not_for_copies(
    node: ScriptedNode, shell: ShellTerminal, tmp_path: Path
) -> None:
    shell.open("shell", "--row-limit", "7")
    shell.enter("SELECT 1;", "SELECT · ")
    shell.enter(f"\\copy t to '{tmp_path}/t.csv'", "Wrote")
    bodies = [call.body or {} for call in node.calls("POST", "/api/v1/statements")]
    limits = {body["statement"]: body.get("row_limit") for body in bodies}
    assert (limits["SELECT 1"], limits["TABLE t"]) == (7, None)


def test_copy_loads_the_rows_of_a_file_in_the_session_of_the_shell(
    node: ScriptedNode, open_shell: ShellTerminal, tmp_path: Path
) -> None:
    node.on(_TABLE, columns=[("id", "int"), ("name", "string")], chunks=[[]])
    (tmp_path / "t.csv").write_text("name,id\nann,1\n,2\n")
    open_shell.enter(f"\\copy t from '{tmp_path}/t.csv'", "2 rows loaded into t.")
    submit = node.calls("POST", "/api/v1/statements")[-1].body
    assert submit is not None
    assert submit["statement"].startswith("INSERT INTO t (`id`, `name`) SELECT CAST(r.c0 AS int)")
    assert submit["session"] == next(iter(node.sessions))
    (tmp_path / "bad.csv").write_text("nme\nann\n")
    assert "did you mean name?" in open_shell.enter(f"\\copy t from '{tmp_path}/bad.csv'", "hint")
    (tmp_path / "empty.csv").write_text("id\n")
    open_shell.enter(f"\\copy t from '{tmp_path}/empty.csv'", "contains no rows")


@pytest.mark.parametrize(
    ("end", "reported"), [("cancelled", "Cancelled st_"), ("success", "ended as success")]
)
def test_an_interrupted_copy_says_how_its_only_statement_ended(
    node: ScriptedNode, open_shell: ShellTerminal, tmp_path: Path, end: str, reported: str
) -> None:
    node.on(_TABLE, columns=[("id", "int")], chunks=[[]])
    plan = LoadPlan("t", [LoadColumn("c0", "id", DataType("int"))], is_new=False)
    node.on(plan.write(from_parameter()), hangs=True, cancels_to=end)
    (tmp_path / "t.csv").write_text("id\n1\n2\n")
    open_shell.enter(f"\\copy t from '{tmp_path}/t.csv'", "running")
    open_shell.type(CTRL_C)
    open_shell.wait_for(reported)
    open_shell.wait_for("default>")
    assert len(user_statements(node)) == 1


def test_ctrl_c_ends_a_copy_that_reads_its_file(
    node: ScriptedNode, open_shell: ShellTerminal, tmp_path: Path
) -> None:
    node.on(_TABLE, columns=[("id", "int")], chunks=[[]])
    os.mkfifo(tmp_path / "t.csv")  # no process writes to it
    open_shell.type(f"\\copy t from '{tmp_path}/t.csv'\r")
    wait_until(lambda: _TABLE in all_statements(node))
    open_shell.type(CTRL_C)
    open_shell.wait_for("default>")
    open_shell.enter("SELECT 2;", "SELECT · ")


def test_a_full_disk_does_not_end_the_shell(node: ScriptedNode, open_shell: ShellTerminal) -> None:
    node.on("SELECT n", columns=[("n", "int")], chunks=[[[n] for n in range(10_000)]])
    open_shell.enter("\\o /dev/full", "as csv.")
    open_shell.enter("SELECT n;", "No space left on device")
    open_shell.enter("SELECT 1;", "SELECT · ")
    assert open_shell.leave() == 0


def test_the_session_can_be_changed(node: ScriptedNode, open_shell: ShellTerminal) -> None:
    open_shell.enter("\\session nope", "There is no session 'nope'")
    open_shell.type("\\session --create etl\r")
    wait_until(lambda: all_statements(node).count(NAMESPACE_QUERY) == 2)
    open_shell.enter("SELECT 1;", "SELECT · ")
    open_shell.wait_for("etl default>")
    assert "etl" in open_shell.enter("\\session", "database")
    open_shell.enter("\\session -", "private")
    open_shell.enter("SELECT 2;", "SELECT · ")
    private, etl = node.sessions.values()
    sessions = {each["statement"]: each["session_id"] for each in node.statements.values()}
    assert sessions["SELECT 1"] == etl["id"]
    assert sessions["SELECT 2"] == private["id"]
    assert open_shell.leave() == 0
    assert (private["state"], etl["state"]) == ("closing", "running")


def test_arguments_that_cannot_be_parsed_are_refused(open_shell: ShellTerminal) -> None:
    open_shell.enter("\\session o'brien", "No closing quotation")
    for line in ("\\i ~nobody0/x", "\\o ~nobody0/x", "\\copy t to ~nobody0/a.csv"):
        open_shell.enter(line, "is not known")
    assert open_shell.leave() == 0


def test_an_unexpected_error_returns_to_the_prompt(
    node: ScriptedNode, open_shell: ShellTerminal
) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[None]])  # a row that is no list
    open_shell.enter("SELECT 1;", "error: TypeError")
    open_shell.enter("SELECT 2;", "SELECT · ")


def test_an_ended_private_session_is_replaced_on_the_return_to_it(
    node: ScriptedNode, open_shell: ShellTerminal
) -> None:
    open_shell.type("\\session --create etl\r")
    wait_until(lambda: all_statements(node).count(NAMESPACE_QUERY) == 2)
    private, _ = node.sessions.values()
    private["state"] = "dead"
    open_shell.enter("\\session -", "private")
    open_shell.enter("SELECT 2;", "SELECT · ")
    sessions = {each["statement"]: each["session_id"] for each in node.statements.values()}
    assert sessions["SELECT 2"] == list(node.sessions)[-1]
    assert len(node.sessions) == 3


def test_refresh_loads_the_names_again(node: ScriptedNode, open_shell: ShellTerminal) -> None:
    open_shell.type("TABLE x")
    wait_until(lambda: all_statements(node).count("SHOW TABLES") == 1)
    open_shell.type(CTRL_C)
    open_shell.enter("\\refresh", "default>")
    open_shell.type("TABLE y")
    wait_until(lambda: all_statements(node).count("SHOW TABLES") == 2)


def test_the_phases_of_a_statement_add_up_to_the_time_of_its_client() -> None:
    statement = {
        "created_at": "2026-01-01T00:00:00.000Z",
        "launched_at": "2026-01-01T00:00:01.000Z",
        "started_at": "2026-01-01T00:00:03.000Z",
        "ended_at": "2026-01-01T00:00:07.000Z",
    }
    phases = "waiting 1 s · starting 2 s · running 4 s"
    assert describe_phases(statement, 15.0) == f"Time: {phases} · answering 8 s · total 15 s"
    # A statement that another client has submitted, and one whose times are rounded.
    for seconds in (None, 6.999):
        assert describe_phases(statement, seconds) == f"Time: {phases} · total 7 s"
