"""The shell with real keys on a pseudo-terminal, against a scripted node."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode
from tests.cli.shell.conftest import set_database, user_statements
from tests.cli.shell.shell_terminal import CTRL_C, CTRL_R, ESCAPE, UP, ShellTerminal
from tests.support.waiting import wait_until

STATEMENT = "/api/v1/statements/[^/]+"


@pytest.mark.finding("U6")
def test_sql_without_text_opens_the_shell_on_a_terminal(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    node.on("SELECT 1 AS x", columns=[("x", "int")], chunks=[[[1]]])
    shell.open("sql")
    shell.enter("SELECT 1 AS x;", "1 row · ")
    assert shell.leave() == 0
    assert user_statements(node) == ["SELECT 1 AS x"]


@pytest.mark.finding("U6")
def test_sql_without_text_is_an_error_in_a_pipe(headrace: RunHeadrace, node: ScriptedNode) -> None:
    completed = headrace("shell")
    assert completed.returncode == 2
    assert "The shell needs a terminal." in completed.stderr
    assert "headrace sql -f FILE" in completed.stderr
    assert headrace("sql").returncode == 0  # an empty pipe holds no statement
    assert not node.sessions


def test_all_statements_share_a_private_session_that_the_shell_closes(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    shell.open()
    shell.enter("CREATE TEMP VIEW v AS SELECT 1;", "CREATE VIEW · ")
    shell.enter("SET a = 1; SET b = 2;", "SET · ")
    assert shell.leave() == 0
    (session,) = node.sessions.values()
    assert {statement["session_id"] for statement in node.statements.values()} == {session["id"]}
    assert session["state"] == "closing"
    assert user_statements(node) == ["CREATE TEMP VIEW v AS SELECT 1", "SET a = 1", "SET b = 2"]


def test_a_named_session_stays_open(node: ScriptedNode, shell: ShellTerminal) -> None:
    shell.open("shell", "--session", "mine", "--create")
    shell.wait_for("default>")
    assert shell.leave() == 0
    (session,) = node.sessions.values()
    assert (session["name"], session["state"]) == ("mine", "running")


def test_an_unknown_session_is_refused_at_the_start(shell: ShellTerminal) -> None:
    shell.process = shell.start("shell", "--session", "absent")
    assert shell.process.wait(timeout=120) == 2
    shell.close()  # the terminal has been read to its end
    assert "There is no session 'absent'." in shell.text


def test_enter_runs_a_complete_text_and_continues_any_other(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    shell.open()
    shell.enter("SELECT ';'", "->")
    shell.enter("-- a comment;", "->")
    shell.enter(", 2;", "SELECT · ")
    shell.enter("BEGIN SELECT 1;", "->")
    shell.enter("END;", "BEGIN · ")
    shell.type("SELECT 3" + ESCAPE + "\r")
    shell.wait_for("SELECT · ")
    assert user_statements(node) == [
        "SELECT ';'\n-- a comment;\n, 2",
        "BEGIN SELECT 1;\nEND",
        "SELECT 3",
    ]


def test_a_line_of_statements_stops_at_the_first_error(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    error = {"code": "x", "message": "It is wrong.", "line": 1, "column": 8}
    node.on("SELECT y", state="failed", error=error)
    shell.open()
    written = shell.enter("SELECT 1; SELECT y; SELECT 3;", " · st_")
    assert "error: statement 2: It is wrong. (line 1, column 18)" in written
    shell.enter("SELECT 4;", "SELECT · ")
    assert user_statements(node) == ["SELECT 1", "SELECT y", "SELECT 4"]


def test_the_prompt_names_the_database_after_use(node: ScriptedNode, shell: ShellTerminal) -> None:
    shell.open()
    shell.wait_for("default>")
    set_database(node, "db", "lake")
    shell.enter("USE lake.db;", "private lake.db>")


def test_ctrl_c_cancels_the_running_statement_and_returns_to_the_prompt(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    node.on("SELECT slow", hangs=True)
    shell.open()
    shell.enter("SELECT slow;", "running")
    shell.type(CTRL_C)
    written = shell.wait_for("default>")
    assert "Cancelling … (press Ctrl-C again to stop waiting)" in written
    assert "Cancelled st_" in written
    states = {each["statement"]: each["state"] for each in node.statements.values()}
    assert states["SELECT slow"] == "cancelled"
    shell.enter("SELECT 2;", "SELECT · ")
    assert shell.leave() == 0


def test_a_second_ctrl_c_stops_waiting_for_the_cancel(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    node.on("SELECT slow", hangs=True, cancels_to=None)
    shell.open()
    shell.enter("SELECT slow;", "running")
    shell.type(CTRL_C)
    wait_until(lambda: node.calls("POST", f"{STATEMENT}/cancel"), what="the cancel")
    polls = len(node.calls("GET", STATEMENT))
    wait_until(lambda: len(node.calls("GET", STATEMENT)) > polls, what="the wait")
    shell.type(CTRL_C)
    written = shell.wait_for("default>")
    assert "headrace statement attach st_" in written
    assert shell.leave() == 0


def test_ctrl_c_at_the_prompt_clears_the_text(node: ScriptedNode, shell: ShellTerminal) -> None:
    shell.open()
    shell.type("SELECT wrong")
    shell.wait_for("wrong")
    shell.type(CTRL_C)
    shell.enter("SELECT 2;", "SELECT · ")
    assert user_statements(node) == ["SELECT 2"]


def test_sigterm_ends_the_shell_and_closes_its_session(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    shell.open()
    shell.wait_for("default>")
    shell.process.send_signal(signal.SIGTERM)
    assert shell.process.wait(timeout=120) == 130
    (session,) = node.sessions.values()
    assert session["state"] == "closing"


def test_the_history_is_private_and_omits_texts_that_begin_with_a_space(
    node: ScriptedNode, shell: ShellTerminal, state_folder: Path
) -> None:
    shell.open()
    shell.enter("SELECT 1;", "SELECT · ")
    shell.enter(" SELECT 'secret';", "SELECT · ")
    shell.type(UP)
    shell.wait_for("SELECT 1;")
    shell.enter("", "SELECT · ")
    shell.type(CTRL_R + "SELECT")
    shell.wait_for("SELECT 1;")
    shell.type("\r")
    file = state_folder / "headrace" / "shell_history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "SELECT 1;" in file.read_text()
    assert "secret" not in file.read_text()
    assert user_statements(node)[:3] == ["SELECT 1", "SELECT 'secret'", "SELECT 1"]


def has_completed(shell: ShellTerminal) -> bool:
    """Press Tab, and return whether the name is completed.

    The menu opens again when more names are loaded, and ignores a Tab in that moment.
    """
    shell.type("\t")
    try:
        shell.wait_for("ers_2026", seconds=2)
    except AssertionError:
        return False
    return True


def test_names_of_the_catalog_are_completed_when_they_are_loaded(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    columns = [("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean")]
    node.on("SHOW TABLES", columns=columns, chunks=[[["default", "orders_2026", False]]])
    shell.open()
    shell.type("SELECT * FROM ord")
    shell.wait_for("orders_2026")
    wait_until(lambda: has_completed(shell), what="the name is completed")
    shell.enter(";", "SELECT · ")
    assert user_statements(node) == ["SELECT * FROM orders_2026"]


def test_long_results_go_to_the_pager(node: ScriptedNode, shell: ShellTerminal) -> None:
    rows = [[n] for n in range(500)]
    node.on("SELECT n", columns=[("n", "int")], chunks=[rows])
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    shell.environment["PAGER"] = "sed s/^/paged/"
    shell.open()
    assert "paged" not in shell.enter("SELECT 1;", "1 row")
    assert "paged 499" in shell.enter("SELECT n;", "500 rows")
    shell.enter("\\pager off", "Pager: off.")
    assert "paged" not in shell.enter("SELECT n;", "500 rows")


def test_leaving_the_pager_early_stops_the_reading(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    rows = [["x" * 1000] for n in range(2000)]
    node.on("SELECT n", columns=[("n", "string")], chunks=[rows] * 5)
    shell.environment["PAGER"] = "head -n 3"
    shell.open()
    assert "error" not in shell.enter("SELECT n;", "10,000 rows")
    assert len(node.calls("GET", f"{STATEMENT}/result")) < 4


def test_an_ended_private_session_is_replaced(node: ScriptedNode, shell: ShellTerminal) -> None:
    problem = (409, {"code": "session_ended", "detail": "The session has ended."})
    node.on("SELECT 1", problem=problem)
    shell.open()
    shell.wait_for("default>")
    (session,) = node.sessions.values()
    session["state"] = "dead"
    written = shell.enter("SELECT 1;", "Run the statement again.")
    assert "has none of its views" in " ".join(written.split())
    shell.enter("SELECT 2;", "SELECT · ")
    assert len(node.sessions) == 2
    assert list(node.statements.values())[-1]["session_id"] == list(node.sessions)[-1]


def test_watch_repeats_the_last_statement_until_ctrl_c(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    shell.open()
    shell.enter("\\watch", "There is no statement to repeat.")
    shell.enter("SELECT 1;", "SELECT · ")
    shell.type("\\watch 100ms\r")
    wait_until(lambda: len(user_statements(node)) > 3, what="three repetitions")
    shell.type(CTRL_C)
    shell.wait_for("default>")
    shell.enter("SELECT 2;", "SELECT · ")
    assert user_statements(node)[-1] == "SELECT 2"


def test_text_that_is_typed_while_a_statement_runs_appears_at_the_next_prompt(
    node: ScriptedNode, shell: ShellTerminal
) -> None:
    node.on("SELECT slow", hangs=True)
    shell.open()
    shell.enter("SELECT slow;", "running")
    shell.type("SELECT later;")
    polls = len(node.calls("GET", STATEMENT))
    wait_until(lambda: len(node.calls("GET", STATEMENT)) > polls + 1)
    assert "later" not in shell.wait_for("running")
    (slow,) = (id_ for id_, each in node.statements.items() if each["statement"] == "SELECT slow")
    node.finish(slow)
    shell.wait_for("SELECT later;")
    shell.enter("", "SELECT · ")
    assert user_statements(node) == ["SELECT slow", "SELECT later"]
