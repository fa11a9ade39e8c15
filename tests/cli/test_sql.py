from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.conftest import COMMAND, Headrace
from tests.cli.scripted_node import ScriptedNode

STATEMENTS = "/api/v1/statements"
SESSION = "/api/v1/sessions/([^/]+)"


def one_row(node: ScriptedNode, text: str, value: int = 1) -> None:
    node.on(text, columns=[("x", "int")], chunks=[[[value]]])


class TestRows:
    def test_json_is_one_array_of_objects(self, node: ScriptedNode, headrace: Headrace) -> None:
        one_row(node, "SELECT 1 AS x")
        done = headrace("sql", "SELECT 1 AS x", "--format", "json")
        assert (done.returncode, done.stdout, done.stderr) == (0, '[{"x": 1}]\n', "")

    def test_a_pipe_gets_csv(self, node: ScriptedNode, headrace: Headrace) -> None:
        rows = [["a", None], ["", 'say "hi"']]
        node.on("SELECT", columns=[("s", "string"), ("t", "string")], chunks=[rows])
        assert headrace("sql", "SELECT").stdout == 's,t\na,\n"","say ""hi"""\n'

    def test_the_format_can_be_pinned_by_the_environment(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        one_row(node, "SELECT 1 AS x")
        assert headrace("sql", "SELECT 1 AS x", HEADRACE_FORMAT="jsonl").stdout == '{"x": 1}\n'
        flagged = headrace("sql", "SELECT 1 AS x", "--format", "tsv", HEADRACE_FORMAT="jsonl")
        assert flagged.stdout == "x\n1\n"

    def test_an_unknown_pinned_format_is_refused(self, headrace: Headrace) -> None:
        done = headrace("sql", "SELECT", HEADRACE_FORMAT="yaml")
        assert done.returncode == 2
        assert "'yaml' (set by HEADRACE_FORMAT)" in done.stderr
        assert "jsonl" in done.stderr

    def test_all_chunks_are_read_in_order(self, node: ScriptedNode, headrace: Headrace) -> None:
        chunks = [[[n]] for n in range(5)]
        node.on("SELECT", columns=[("n", "int")], chunks=chunks)
        assert headrace("sql", "SELECT").stdout == "n\n0\n1\n2\n3\n4\n"
        asked = [call.query["chunk"] for call in node.calls("GET", f"{STATEMENTS}/[^/]+/result")]
        assert asked == ["1", "2", "3", "4"]  # the first came with the submit

    def test_rows_that_the_node_does_not_give_are_an_error(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]], rows_lost=1)
        done = headrace("sql", "SELECT")
        assert done.returncode == 1
        assert "1 of the 2 rows" in done.stderr

    def test_truncation_is_told_even_when_quiet(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]], truncated=True)
        done = headrace("sql", "SELECT", "--quiet")
        assert done.returncode == 0
        assert "first 1 rows" in done.stderr

    def test_json_refuses_columns_of_one_name(self, node: ScriptedNode, headrace: Headrace) -> None:
        columns = [("a", "int"), ("b", "int"), ("a", "int")]
        node.on("SELECT", columns=columns, chunks=[[[1, 2, 3]]])
        done = headrace("sql", "SELECT", "--format", "json")
        assert done.returncode == 2
        assert done.stdout == ""
        assert "of one name: a." in done.stderr
        assert headrace("sql", "SELECT").stdout == "a,b,a\n1,2,3\n"

    def test_numbers_are_asked_for_as_numbers_where_json_shows_them(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        # The scripted node, like a real one, gives texts with the submit.
        node.on("SELECT", columns=[("n", "bigint")], chunks=[[["7"]]])
        headrace("sql", "SELECT", "--format", "json")
        asked = node.calls("GET", f"{STATEMENTS}/[^/]+/result")
        assert [call.query for call in asked] == [
            {"format": "json", "chunk": "0", "numbers": "plain"}
        ]
        assert headrace("sql", "SELECT").stdout == "n\n7\n"

    def test_binary_formats_come_as_the_node_gives_them(
        self, node: ScriptedNode, environment: dict[str, str], tmp_path: Path
    ) -> None:
        content = bytes(range(256)) * 4000
        node.on("SELECT", columns=[("n", "int")], downloads={"arrow": content})
        command = [*COMMAND, "sql", "SELECT", "--format", "arrow"]
        done = subprocess.run(command, capture_output=True, env=environment, check=True)
        assert done.stdout == content

    def test_what_returns_no_rows_writes_nothing(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        node.on("DROP VIEW v")
        assert headrace("sql", "DROP VIEW v").stdout == ""
        assert headrace("sql", "DROP VIEW v", "--format", "json").stdout == "[]\n"

    def test_format_none_reads_no_rows(self, node: ScriptedNode, headrace: Headrace) -> None:
        node.on("SELECT", columns=[("n", "int")], chunks=[[[1]], [[2]]])
        done = headrace("sql", "SELECT", "--format", "none")
        assert (done.returncode, done.stdout) == (0, "")
        assert not node.calls("GET", f"{STATEMENTS}/[^/]+/result")


class TestSubmit:
    def test_limits_parameters_and_disposition_reach_the_node(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        flags = ["--row-limit", "5", "--byte-limit", "9", "--result", "stored"]
        named = ["--param", "a=1=2", "--param", "b:DECIMAL(3,1)=2.5"]
        headrace("sql", "SELECT :a, :b", *flags, *named)
        (call,) = node.calls("POST", STATEMENTS)
        assert call.body is not None
        assert call.body.pop("wait_timeout").endswith("s")
        assert call.body == {
            "statement": "SELECT :a, :b",
            "row_limit": 5,
            "byte_limit": 9,
            "result": "stored",
            "parameters": [
                {"name": "a", "value": "1=2"},
                {"name": "b", "type": "DECIMAL(3,1)", "value": "2.5"},
            ],
        }

    def test_positional_parameters_have_no_name(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        headrace("sql", "SELECT ?", "--param", ":INT=5")
        (call,) = node.calls("POST", STATEMENTS)
        assert call.body is not None
        assert call.body["parameters"] == [{"type": "INT", "value": "5"}]

    def test_the_private_session_is_closed(self, node: ScriptedNode, headrace: Headrace) -> None:
        headrace("sql", "SELECT 1; SELECT 2")
        first, second = node.calls("POST", STATEMENTS)
        assert first.body is not None
        assert second.body is not None
        (session,) = node.sessions
        assert "session" not in first.body
        assert second.body["session"] == session
        assert node.sessions[session]["state"] == "closing"

    def test_a_named_session_stays(self, node: ScriptedNode, headrace: Headrace) -> None:
        assert headrace("sql", "SELECT 1", "--session", "mine", "--create").returncode == 0
        assert headrace("sql", "SELECT 1", "--session", "mine", "--create").returncode == 0
        assert headrace("sql", "SELECT 1", "--session", "mine").returncode == 0
        (session,) = node.sessions.values()
        assert (session["name"], session["state"]) == ("mine", "running")

    def test_an_unknown_session_is_refused(self, headrace: Headrace) -> None:
        done = headrace("sql", "SELECT 1", "--session", "nobody")
        assert done.returncode == 2
        assert done.stderr == "error: There is no session 'nobody'.\n"

    def test_configuration_makes_a_session_of_its_own(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        headrace("sql", "SELECT 1", "--conf", "spark.a=1", "--profile", "big")
        (session,) = node.sessions.values()
        assert (session["conf"], session["profile"]) == ({"spark.a": "1"}, "big")
        assert session["state"] == "closing"

    def test_an_existing_session_keeps_its_configuration(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        headrace("sql", "SELECT 1", "--session", "mine", "--create", "--conf", "spark.a=1")
        other = headrace("sql", "SELECT 1", "--session", "mine", "--create", "--conf", "spark.a=2")
        assert other.returncode == 6
        assert "another configuration: spark.a" in other.stderr
        without = headrace("sql", "SELECT 1", "--session", "mine", "--conf", "spark.a=2")
        assert without.returncode == 2

    def test_detach_prints_the_id_and_leaves_the_session(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        node.on("SELECT", hangs=True)
        done = headrace("sql", "SELECT", "--detach")
        (statement,) = node.statements.values()
        assert (done.returncode, done.stdout) == (0, statement["id"] + "\n")
        assert statement["state"] == "running"
        assert not node.calls("DELETE", SESSION)

    def test_wait_gives_up_and_leaves_it_running(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        node.on("SELECT", hangs=True)
        done = headrace("sql", "SELECT; SELECT 2", "--wait", "50ms")
        (statement,) = node.statements.values()
        assert done.returncode == 4
        assert f"statement attach {statement['id']}" in done.stderr
        assert statement["state"] == "running"
        assert not node.calls("DELETE", SESSION)

    def test_a_bare_number_is_no_duration(self, headrace: Headrace) -> None:
        done = headrace("sql", "SELECT", "--wait", "5")
        assert done.returncode == 2
        assert "--wait: '5' is not a duration" in done.stderr

    def test_text_is_sent_as_it_is(self, node: ScriptedNode, headrace: Headrace) -> None:
        text = "SELECT 'ä;b' /* ; */ -- ;"
        headrace("sql", f"  {text}")
        (call,) = node.calls("POST", STATEMENTS)
        assert call.body is not None
        assert call.body["statement"] == text


class TestSources:
    def test_files_and_arguments_and_stdin(
        self, node: ScriptedNode, headrace: Headrace, tmp_path: Path
    ) -> None:
        (tmp_path / "a.sql").write_text("SELECT 2;\n-- nothing more\n")
        headrace("sql", "SELECT 1", "-f", "a.sql", "-f", "-", stdin=b"\xef\xbb\xbfSELECT 3")
        texts = [call.body["statement"] for call in node.calls("POST", STATEMENTS) if call.body]
        assert texts == ["SELECT 1", "SELECT 2", "SELECT 3"]

    def test_stdin_alone(self, node: ScriptedNode, headrace: Headrace) -> None:
        one_row(node, "SELECT 1")
        assert headrace("sql", stdin=b"SELECT 1;\n").stdout == "x\n1\n"

    def test_an_empty_argument_is_refused_and_an_empty_file_is_not(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        assert headrace("sql", " -- nothing").returncode == 2
        assert headrace("sql", stdin=b"").returncode == 0
        assert not node.calls("POST", STATEMENTS)

    def test_what_is_no_utf8_is_refused(self, node: ScriptedNode, headrace: Headrace) -> None:
        done = headrace("sql", stdin=b"SELECT\n'\xff'")
        assert done.returncode == 2
        assert "standard input is no valid UTF-8 in line 2" in done.stderr
        assert not node.calls("POST", STATEMENTS)

    def test_a_missing_file_is_named(self, headrace: Headrace) -> None:
        done = headrace("sql", "-f", "gone.sql")
        assert done.returncode == 2
        assert "gone.sql cannot be read: No such file or directory." in done.stderr


class TestScripts:
    BAD = "SELECT a,\n  b FROM t"

    def fail(self, node: ScriptedNode) -> None:
        node.on(
            self.BAD,
            state="failed",
            error={
                "code": "analysis_error",
                "condition": "UNRESOLVED_COLUMN",
                "message": "No column `b`.\nMore about it.",
                "line": 2,
                "column": 3,
                "trace": "at Spark",
            },
        )

    def test_an_error_stops_the_script_and_names_its_place(
        self, node: ScriptedNode, headrace: Headrace, tmp_path: Path
    ) -> None:
        self.fail(node)
        (tmp_path / "s.sql").write_text(f"SELECT 1;\n\n{self.BAD};\nSELECT 3;")
        done = headrace("sql", "-f", "s.sql")
        assert done.returncode == 1
        assert done.stderr == (
            "error: s.sql:4:3, statement 2: [UNRESOLVED_COLUMN] No column `b`.\n"
            "   4 │   b FROM t;\n"
            "     │   ^\n"
        )
        assert len(node.statements) == 2

    def test_the_first_line_of_a_statement_may_begin_further_right(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        error = {"code": "syntax_error", "message": "Bad.", "line": 1, "column": 1}
        node.on("SELEC 2", state="failed", error=error)
        done = headrace("sql", "SELECT 1; SELEC 2")
        assert done.stderr == (
            "error: statement 2: Bad. (line 1, column 11)\n"
            "   1 │ SELECT 1; SELEC 2\n"
            "     │           ^\n"
        )

    def test_debug_shows_all_of_the_error(self, node: ScriptedNode, headrace: Headrace) -> None:
        self.fail(node)
        done = headrace("sql", self.BAD, "--debug")
        assert "More about it." in done.stderr
        assert "at Spark" in done.stderr
        assert "at Spark" not in headrace("sql", self.BAD).stderr

    def test_it_can_go_on_after_an_error(self, node: ScriptedNode, headrace: Headrace) -> None:
        self.fail(node)
        one_row(node, "SELECT 3", 3)
        done = headrace("sql", f"{self.BAD}; SELECT 3", "--on-error", "continue")
        assert (done.returncode, done.stdout) == (1, "x\n3\n")

    def test_whose_results_are_written(self, node: ScriptedNode, headrace: Headrace) -> None:
        for n in (1, 2, 3):
            one_row(node, f"SELECT {n}", n)
        node.on("DROP")
        script = "SELECT 1; SELECT 2; DROP; SELECT 3"
        assert headrace("sql", script).stdout == "x\n1\n\nx\n2\n\nx\n3\n"
        assert headrace("sql", script, "--results", "last").stdout == "x\n3\n"
        assert headrace("sql", script, "--results", "2").stdout == "x\n2\n"
        assert headrace("sql", script, "--results", "5").returncode == 2

    def test_a_binary_output_holds_one_result(self, node: ScriptedNode, headrace: Headrace) -> None:
        node.on("SELECT 2", columns=[("x", "int")], downloads={"parquet": b"PAR1"})
        script = ["sql", "SELECT 1; SELECT 2", "--format", "parquet"]
        assert headrace(*script).returncode == 2
        assert not node.statements
        assert headrace(*script, "--results", "last").stdout == "PAR1"


class TestExitCodes:
    def test_a_refused_submit(self, node: ScriptedNode, headrace: Headrace) -> None:
        problem = {"code": "reserved_statement", "detail": "Not yet.", "line": 1, "column": 8}
        node.on("CREATE STREAM s", problem=(400, problem))
        done = headrace("sql", "CREATE STREAM s")
        assert done.returncode == 2
        assert done.stderr == (
            "error: Not yet. (line 1, column 8)\n   1 │ CREATE STREAM s\n     │        ^\n"
        )

    def test_a_timeout(self, node: ScriptedNode, headrace: Headrace) -> None:
        node.on("SELECT", state="timeout", error={"code": "timeout", "message": "Too long."})
        assert headrace("sql", "SELECT").returncode == 4

    def test_a_wrong_token(self, node: ScriptedNode, headrace: Headrace) -> None:
        node.token = "right"
        assert headrace("sql", "SELECT").returncode == 5
        assert headrace("sql", "SELECT", HEADRACE_TOKEN="right").returncode == 0

    def test_no_node(self, headrace: Headrace) -> None:
        done = headrace("sql", "SELECT", HEADRACE_SERVER="http://127.0.0.1:1")
        assert done.returncode == 3
        assert "http://127.0.0.1:1 (set by HEADRACE_SERVER)" in done.stderr

    def test_no_address(self, headrace: Headrace) -> None:
        assert headrace("sql", "SELECT", "--server", "localhost:8040").returncode == 2

    def test_an_unknown_option(self, headrace: Headrace) -> None:
        assert headrace("sql", "SELECT", "--formt", "csv").returncode == 2


class TestOutages:
    def test_a_submit_runs_once_however_often_it_is_sent(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        one_row(node, "SELECT 1")
        node.dropped = 1  # after the node has carried it out
        done = headrace("sql", "SELECT 1")
        assert (done.returncode, done.stdout) == (0, "x\n1\n")
        assert len(node.calls("POST", STATEMENTS)) == 2
        assert len(node.statements) == 1

    def test_a_node_without_its_store_is_asked_again(
        self, node: ScriptedNode, headrace: Headrace
    ) -> None:
        one_row(node, "SELECT 1")
        node.outages = 2
        assert headrace("sql", "SELECT 1").returncode == 0
