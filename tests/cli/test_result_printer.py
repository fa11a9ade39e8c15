from __future__ import annotations

import subprocess

import pytest
from tests.cli.conftest import COMMAND, RunHeadrace
from tests.cli.scripted_node import ScriptedNode

RESULT = "/api/v1/statements/[^/]+/result"


def test_json_output_is_an_array_of_objects(node: ScriptedNode, headrace: RunHeadrace) -> None:
    node.on("SELECT 1 AS x", columns=[("x", "int")], chunks=[[[1]]])
    completed = headrace("sql", "SELECT 1 AS x", "--format", "json")
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, '[{"x": 1}]\n', "")


def test_output_to_a_pipe_is_csv_by_default(node: ScriptedNode, headrace: RunHeadrace) -> None:
    rows = [["a", None], ["", 'say "hi"']]
    node.on("SELECT", columns=[("s", "string"), ("t", "string")], chunks=[rows])
    assert headrace("sql", "SELECT").stdout == 's,t\na,\n"","say ""hi"""\n'


def test_environment_sets_the_format_and_the_flag_overrides_it(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node.on("SELECT 1 AS x", columns=[("x", "int")], chunks=[[[1]]])
    assert headrace("sql", "SELECT 1 AS x", HEADRACE_FORMAT="jsonl").stdout == '{"x": 1}\n'
    flagged = headrace("sql", "SELECT 1 AS x", "--format", "tsv", HEADRACE_FORMAT="jsonl")
    assert flagged.stdout == "x\n1\n"


def test_unknown_format_in_the_environment_is_refused(headrace: RunHeadrace) -> None:
    completed = headrace("sql", "SELECT", HEADRACE_FORMAT="yaml")
    assert completed.returncode == 2
    assert "'yaml' (set by HEADRACE_FORMAT)" in completed.stderr
    assert "jsonl" in completed.stderr


def test_all_chunks_of_a_result_are_read_in_order(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    chunks = [[[n]] for n in range(5)]
    node.on("SELECT", columns=[("n", "int")], chunks=chunks)
    assert headrace("sql", "SELECT").stdout == "n\n0\n1\n2\n3\n4\n"
    chunks_read = [call.query["chunk"] for call in node.calls("GET", RESULT)]
    assert chunks_read == ["1", "2", "3", "4"]  # the submit returned chunk 0


def test_an_incomplete_result_is_an_error(node: ScriptedNode, headrace: RunHeadrace) -> None:
    node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]], rows_lost=1)
    completed = headrace("sql", "SELECT")
    assert completed.returncode == 1
    assert "the node returned 1 of 2 rows" in completed.stderr


def test_truncation_is_reported_even_with_quiet(node: ScriptedNode, headrace: RunHeadrace) -> None:
    node.on("SELECT", columns=[("n", "int")], chunks=[[[1]]], truncated=True)
    completed = headrace("sql", "SELECT", "--quiet")
    assert completed.returncode == 0
    assert "Truncated after 1 row," in completed.stderr


@pytest.mark.finding("B16")
def test_the_note_of_a_table_that_is_not_atomic_replaces_the_general_warning(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node.on("swap", outcome={"atomic": False, "note": "The table was replaced by two renames."})
    node.on("plain", outcome={"atomic": False})
    swap, plain = headrace("sql", "swap"), headrace("sql", "plain")
    assert "replaced by two renames" in swap.stderr
    assert "part of its rows" not in swap.stderr
    assert "a failure would have left a part of its rows" in plain.stderr


def test_json_refuses_duplicate_column_names(node: ScriptedNode, headrace: RunHeadrace) -> None:
    columns = [("a", "int"), ("b", "int"), ("a", "int")]
    node.on("SELECT", columns=columns, chunks=[[[1, 2, 3]]])
    completed = headrace("sql", "SELECT", "--format", "json")
    assert completed.returncode == 2
    assert completed.stdout == ""
    assert "of the same name: a." in completed.stderr
    assert headrace("sql", "SELECT").stdout == "a,b,a\n1,2,3\n"


def test_json_reads_bigint_values_as_numbers(node: ScriptedNode, headrace: RunHeadrace) -> None:
    # Like a real node, the scripted one returns strings with the submit.
    node.on("SELECT", columns=[("n", "bigint")], chunks=[[["7"]]])
    headrace("sql", "SELECT", "--format", "json")
    result_calls = node.calls("GET", RESULT)
    assert [call.query for call in result_calls] == [
        {"format": "json", "chunk": "0", "numbers": "plain"}
    ]
    assert headrace("sql", "SELECT").stdout == "n\n7\n"


@pytest.mark.parametrize(
    ("format_", "download"),
    [("arrow", "arrow_file"), ("arrows", "arrow"), ("parquet", "parquet")],
)
def test_binary_formats_are_written_unchanged(
    node: ScriptedNode, environment: dict[str, str], format_: str, download: str
) -> None:
    content = bytes(range(256)) * 4000
    node.on("SELECT", columns=[("n", "int")], downloads={download: content})
    command = [*COMMAND, "sql", "SELECT", "--format", format_]
    completed = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert completed.stdout == content


def test_a_statement_without_columns_prints_nothing_except_an_empty_json_array(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    node.on("DROP VIEW v")
    assert headrace("sql", "DROP VIEW v").stdout == ""
    assert headrace("sql", "DROP VIEW v", "--format", "json").stdout == "[]\n"


def test_format_none_reads_no_rows(node: ScriptedNode, headrace: RunHeadrace) -> None:
    node.on("SELECT", columns=[("n", "int")], chunks=[[[1]], [[2]]])
    completed = headrace("sql", "SELECT", "--format", "none")
    assert (completed.returncode, completed.stdout) == (0, "")
    assert not node.calls("GET", RESULT)
