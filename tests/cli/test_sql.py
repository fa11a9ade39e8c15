from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode

STATEMENTS = "/api/v1/statements"
SESSION = "/api/v1/sessions/([^/]+)"


def one_row(node: ScriptedNode, text: str, value: int = 1) -> None:
    node.on(text, columns=[("x", "int")], chunks=[[[value]]])


@pytest.mark.finding("U20")
@pytest.mark.parametrize("text", ["-- hello\nSELECT 1", "--hello\nSELECT 1", "--\nSELECT 1"])
def test_an_argument_may_begin_with_a_comment(
    node: ScriptedNode, headrace: RunHeadrace, text: str
) -> None:
    assert headrace("sql", text, "--format=csv", "--row-limit", "5").returncode == 0
    (call,) = node.calls("POST", STATEMENTS)
    assert call.body is not None
    assert (call.body["statement"], call.body["row_limit"]) == (text, 5)


def test_an_option_that_does_not_exist_is_no_comment(headrace: RunHeadrace) -> None:
    completed = headrace("sql", "--hello", "SELECT 1")
    assert completed.returncode == 2
    assert "No such option" in completed.stderr


class TestSubmit:
    def test_limits_parameters_and_disposition_are_sent(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        flags = ["--row-limit", "5", "--byte-limit", "9", "--result", "memory"]
        named = ["--param", "a=1=2", "--param", "b:DECIMAL(3,1)=2.5"]
        headrace("sql", "SELECT :a, :b", *flags, *named)
        (call,) = node.calls("POST", STATEMENTS)
        assert call.body is not None
        assert call.body.pop("wait_timeout").endswith("s")
        assert call.body == {
            "statement": "SELECT :a, :b",
            "row_limit": 5,
            "byte_limit": 9,
            "result": "memory",
            "parameters": [
                {"name": "a", "value": "1=2"},
                {"name": "b", "type": "DECIMAL(3,1)", "value": "2.5"},
            ],
        }

    def test_positional_parameters_have_no_name(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        headrace("sql", "SELECT ?", "--param", ":INT=5")
        (call,) = node.calls("POST", STATEMENTS)
        assert call.body is not None
        assert call.body["parameters"] == [{"type": "INT", "value": "5"}]

    def test_statements_share_a_private_session_which_is_closed(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        # The query could depend on the setting, and the last statement on the first query.
        headrace("sql", "SELECT 1; SET a.b = 1; SELECT 2")
        (session,) = node.sessions
        bodies = [call.body or {} for call in node.calls("POST", STATEMENTS)]
        assert [body["session"] for body in bodies] == [session] * 3
        assert node.sessions[session]["state"] == "closing"

    @pytest.mark.parametrize("script", ["SELECT 1", "SELECT 1; SELECT 2", "SELECT 1; SET a.b = 1"])
    def test_statements_that_share_nothing_run_without_a_session(
        self, node: ScriptedNode, headrace: RunHeadrace, script: str
    ) -> None:
        assert headrace("sql", script).returncode == 0
        bodies = [call.body or {} for call in node.calls("POST", STATEMENTS)]
        assert not any("session" in body for body in bodies)
        assert not node.calls("POST", "/api/v1/sessions")
        # Statements of other commands may run in the pool session.
        assert not node.calls("DELETE", SESSION)

    def test_a_named_session_remains_open(self, node: ScriptedNode, headrace: RunHeadrace) -> None:
        assert headrace("sql", "SELECT 1", "--session", "mine", "--create").returncode == 0
        assert headrace("sql", "SELECT 1", "--session", "mine", "--create").returncode == 0
        assert headrace("sql", "SELECT 1", "--session", "mine").returncode == 0
        (session,) = node.sessions.values()
        assert (session["name"], session["state"]) == ("mine", "running")

    def test_an_unknown_session_is_refused(self, headrace: RunHeadrace) -> None:
        completed = headrace("sql", "SELECT 1", "--session", "missing")
        assert completed.returncode == 2
        assert completed.stderr == (
            "error: There is no session 'missing'.\n"
            "hint: add --create, or choose a session of headrace session list\n"
        )

    def test_configuration_and_profile_create_a_private_session(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        headrace("sql", "SELECT 1", "--conf", "spark.a=1", "--profile", "big")
        (session,) = node.sessions.values()
        assert (session["conf"], session["profile"]) == ({"spark.a": "1"}, "big")
        assert session["state"] == "closing"

    def test_an_existing_session_with_another_configuration_is_refused(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        headrace("sql", "SELECT 1", "--session", "mine", "--create", "--conf", "spark.a=1")
        other = headrace("sql", "SELECT 1", "--session", "mine", "--create", "--conf", "spark.a=2")
        assert other.returncode == 6
        assert "another configuration: spark.a" in other.stderr
        without = headrace("sql", "SELECT 1", "--session", "mine", "--conf", "spark.a=2")
        assert without.returncode == 2

    def test_detach_prints_the_id_and_keeps_the_session_open(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        node.on("SELECT", hangs=True)
        completed = headrace("sql", "USE a; SELECT", "--detach")
        use, statement = node.statements.values()
        assert completed.returncode == 0
        assert completed.stdout == f"{use['id']}\n{statement['id']}\n"
        assert statement["state"] == "running"
        assert not node.calls("DELETE", SESSION)

    def test_wait_ends_the_command_and_the_statement_continues(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        node.on("SELECT", hangs=True)
        completed = headrace("sql", "USE a; SELECT; SELECT 2", "--wait", "50ms")
        _use, statement = node.statements.values()
        assert completed.returncode == 4
        assert f"statement attach {statement['id']}" in completed.stderr
        assert statement["state"] == "running"
        assert not node.calls("DELETE", SESSION)

    def test_a_duration_without_a_unit_is_refused(self, headrace: RunHeadrace) -> None:
        completed = headrace("sql", "SELECT", "--wait", "5")
        assert completed.returncode == 2
        assert "--wait: '5' is" in completed.stderr

    def test_the_text_of_a_statement_is_sent_unchanged(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        text = "SELECT 'ä;b' /* ; */ -- ;"
        headrace("sql", f"  {text}")
        (call,) = node.calls("POST", STATEMENTS)
        assert call.body is not None
        assert call.body["statement"] == text

    def test_kind_and_timeouts_are_sent_with_each_statement(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        one_row(node, "SELECT 1")
        flags = ["--kind", "batch", "--timeout", "10m", "--queue-timeout", "30s"]
        assert headrace("sql", "SELECT 1; SELECT 1", *flags).returncode == 0
        bodies = [call.body for call in node.calls("POST", STATEMENTS)]
        assert len(bodies) == 2
        for body in bodies:
            assert body is not None
            assert (body["kind"], body["timeout"], body["queue_timeout"]) == ("batch", "10m", "30s")
            # Each batch statement has a session of its own.
            assert "session" not in body

    def test_a_local_statement_needs_no_session_of_the_command(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        cancel = "CANCEL STATEMENT 'x'"
        node.on(cancel, kind="local", columns=[("state", "string")], chunks=[[["a"]]])
        assert headrace("sql", f"{cancel}; SET a.b = 1; SELECT 1").returncode == 0
        bodies = [call.body or {} for call in node.calls("POST", STATEMENTS)]
        assert ["session" in body for body in bodies] == [False, True, True]

    @pytest.mark.parametrize("flag", ["--timeout", "--queue-timeout"])
    def test_a_timeout_without_a_unit_is_refused(self, headrace: RunHeadrace, flag: str) -> None:
        completed = headrace("sql", "SELECT 1", flag, "10")
        assert completed.returncode == 2
        assert flag in completed.stderr


class TestSources:
    def test_arguments_run_before_files_and_standard_input(
        self, node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
    ) -> None:
        (tmp_path / "a.sql").write_text("SELECT 2;\n-- end of file\n")
        headrace("sql", "SELECT 1", "-f", "a.sql", "-f", "-", stdin=b"\xef\xbb\xbfSELECT 3")
        texts = [call.body["statement"] for call in node.calls("POST", STATEMENTS) if call.body]
        assert texts == ["SELECT 1", "SELECT 2", "SELECT 3"]

    def test_standard_input_is_read_without_arguments(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        one_row(node, "SELECT 1")
        assert headrace("sql", stdin=b"SELECT 1;\n").stdout == "x\n1\n"

    def test_an_empty_argument_is_refused_but_an_empty_file_is_not(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        assert headrace("sql", " -- nothing").returncode == 2
        assert headrace("sql", stdin=b"").returncode == 0
        assert not node.calls("POST", STATEMENTS)

    def test_standard_input_that_is_not_utf8_is_refused(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        completed = headrace("sql", stdin=b"SELECT\n'\xff'")
        assert completed.returncode == 2
        assert "standard input is not valid UTF-8 in line 2" in completed.stderr
        assert not node.calls("POST", STATEMENTS)

    def test_the_error_names_a_missing_file(self, headrace: RunHeadrace) -> None:
        completed = headrace("sql", "-f", "missing.sql")
        assert completed.returncode == 2
        assert "missing.sql cannot be read: No such file or directory." in completed.stderr


class TestScripts:
    BAD = "SELECT a,\n  b FROM t"

    def script_failure(self, node: ScriptedNode) -> None:
        node.on(
            self.BAD,
            state="failed",
            error={
                "code": "analysis_error",
                "condition": "UNRESOLVED_COLUMN",
                "message": "No column `b`.\nDetails of the error.",
                "line": 2,
                "column": 3,
                "trace": "at Spark",
            },
        )

    def test_an_error_stops_the_script_and_names_file_line_and_statement(
        self, node: ScriptedNode, headrace: RunHeadrace, tmp_path: Path
    ) -> None:
        self.script_failure(node)
        (tmp_path / "s.sql").write_text(f"SELECT 1;\n\n{self.BAD};\nSELECT 3;")
        completed = headrace("sql", "-f", "s.sql")
        assert completed.returncode == 1
        assert completed.stderr == (
            "error: s.sql:4:3, statement 2: [UNRESOLVED_COLUMN] No column `b`.\n"
            "   4 │   b FROM t;\n"
            "     │   ^\n"
        )
        assert len(node.statements) == 2

    def test_the_position_of_an_error_counts_from_the_start_of_the_argument(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        error = {"code": "syntax_error", "message": "Bad.", "line": 1, "column": 1}
        node.on("SELEC 2", state="failed", error=error)
        completed = headrace("sql", "SELECT 1; SELEC 2")
        assert completed.stderr == (
            "error: statement 2: Bad. (line 1, column 11)\n"
            "   1 │ SELECT 1; SELEC 2\n"
            "     │           ^\n"
        )

    def test_debug_shows_the_details_and_the_stack_trace(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        self.script_failure(node)
        completed = headrace("sql", self.BAD, "--debug")
        assert "Details of the error." in completed.stderr
        assert "at Spark" in completed.stderr
        assert "at Spark" not in headrace("sql", self.BAD).stderr

    def test_on_error_continue_runs_the_following_statements(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        self.script_failure(node)
        one_row(node, "SELECT 3", 3)
        completed = headrace("sql", f"{self.BAD}; SELECT 3", "--on-error", "continue")
        assert (completed.returncode, completed.stdout) == (1, "x\n3\n")

    def test_results_flag_selects_the_results_to_print(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        for n in (1, 2, 3):
            one_row(node, f"SELECT {n}", n)
        node.on("DROP")
        script = "SELECT 1; SELECT 2; DROP; SELECT 3"
        assert headrace("sql", script).stdout == "x\n1\n\nx\n2\n\nx\n3\n"
        assert headrace("sql", script, "--results", "last").stdout == "x\n3\n"
        assert headrace("sql", script, "--results", "2").stdout == "x\n2\n"
        assert headrace("sql", script, "--results", "5").returncode == 2

    def test_a_binary_format_accepts_one_result_only(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        node.on("SELECT 2", columns=[("x", "int")], downloads={"parquet": b"PAR1"})
        script = ["sql", "SELECT 1; SELECT 2", "--format", "parquet"]
        assert headrace(*script).returncode == 2
        assert not node.statements
        assert headrace(*script, "--results", "last").stdout == "PAR1"


class TestExitCodes:
    def test_a_refused_submit_is_a_usage_error(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        problem = {"code": "reserved_statement", "detail": "Not yet.", "line": 1, "column": 8}
        node.on("CREATE STREAM s", problem=(400, problem))
        completed = headrace("sql", "CREATE STREAM s")
        assert completed.returncode == 2
        assert completed.stderr == (
            "error: Not yet. (line 1, column 8)\n   1 │ CREATE STREAM s\n     │        ^\n"
        )

    def test_a_timeout_has_its_own_exit_code(
        self, node: ScriptedNode, headrace: RunHeadrace
    ) -> None:
        node.on("SELECT", state="timeout", error={"code": "timeout", "message": "Too long."})
        assert headrace("sql", "SELECT").returncode == 4

    @pytest.mark.parametrize(
        ("flag", "cancel_reason", "message"),
        [
            ("--timeout", "timeout", "Cancelled after 2 s (--timeout)."),
            ("--queue-timeout", None, "Not started within 2 s (--queue-timeout)."),
            # Not the flag of this command, but a setting of the node was the cause.
            ("--queue-timeout", "timeout", "Too long."),
        ],
    )
    def test_the_error_names_the_timeout_flag(
        self,
        node: ScriptedNode,
        headrace: RunHeadrace,
        flag: str,
        cancel_reason: str | None,
        message: str,
    ) -> None:
        error = {"code": "statement_timeout", "message": "Too long."}
        node.on("SELECT", state="timeout", error=error, cancel_reason=cancel_reason)
        assert headrace("sql", "SELECT", flag, "2s").stderr == f"error: {message}\n"

    def test_a_wrong_token_is_denied(self, node: ScriptedNode, headrace: RunHeadrace) -> None:
        node.token = "right"
        assert headrace("sql", "SELECT").returncode == 5
        assert headrace("sql", "SELECT", HEADRACE_TOKEN="right").returncode == 0

    def test_an_unreachable_node_is_named_with_the_source_of_its_address(
        self, headrace: RunHeadrace, short_retries: None
    ) -> None:
        completed = headrace("sql", "SELECT", HEADRACE_SERVER="http://127.0.0.1:1")
        assert completed.returncode == 3
        assert "http://127.0.0.1:1 (set by HEADRACE_SERVER)" in completed.stderr

    def test_a_server_without_scheme_is_refused(self, headrace: RunHeadrace) -> None:
        assert headrace("sql", "SELECT", "--server", "localhost:8040").returncode == 2

    def test_an_unknown_option_is_refused(self, headrace: RunHeadrace) -> None:
        assert headrace("sql", "SELECT", "--formt", "csv").returncode == 2
