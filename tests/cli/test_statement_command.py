from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Headrace
from tests.cli.scripted_node import ScriptedNode


@pytest.fixture
def done(node: ScriptedNode, headrace: Headrace) -> str:
    """A statement with one row."""
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    return headrace("sql", "SELECT 1", "--detach").stdout.strip()


@pytest.fixture
def failed(node: ScriptedNode, headrace: Headrace) -> str:
    error = {"code": "syntax_error", "message": "Bad.", "line": 1, "column": 1, "trace": "at X"}
    node.on("SELEC", state="failed", error=error)
    return headrace("sql", "SELEC", "--detach").stdout.strip()


@pytest.fixture
def hanging(node: ScriptedNode, headrace: Headrace) -> str:
    node.on("SELECT 2", hangs=True)
    return headrace("sql", "SELECT 2", "--detach").stdout.strip()


def test_list(headrace: Headrace, done: str, failed: str) -> None:
    listed = headrace("statement", "list").stdout.splitlines()
    assert listed[0] == "id,state,statement,session_id,owner,created_at,ended_at"
    assert [line.split(",")[:3] for line in listed[1:]] == [
        [failed, "failed", "SELEC"],
        [done, "success", "SELECT 1"],
    ]


def test_a_list_that_is_not_whole_says_so(headrace: Headrace, done: str, failed: str) -> None:
    page = headrace("statement", "list", "--limit", "1", "--format", "json")
    assert [each["id"] for each in json.loads(page.stdout)] == [failed]
    assert f"--before {failed}" in page.stderr


def test_show(headrace: Headrace, done: str, failed: str) -> None:
    lines = headrace("statement", "show", done).stdout.splitlines()
    assert f"id          {done}" in lines
    assert "state       success" in lines
    shown = json.loads(headrace("statement", "show", failed, "--format", "json").stdout)
    assert (shown["error"]["message"], shown["error"]["trace"]) == ("Bad.", None)
    traced = headrace("statement", "show", failed, "--format", "json", "--debug").stdout
    assert json.loads(traced)["error"]["trace"] == "at X"


def test_an_unknown_statement(headrace: Headrace) -> None:
    done = headrace("statement", "show", "st_0")
    assert (done.returncode, done.stderr) == (2, "error: There is no statement 'st_0'.\n")


def test_result(headrace: Headrace, done: str, failed: str, hanging: str) -> None:
    assert headrace("statement", "result", done).stdout == "x\n1\n"
    bad = headrace("statement", "result", failed)
    assert bad.returncode == 1
    assert bad.stderr == "error: Bad. (line 1, column 1)\n   1 │ SELEC\n     │ ^\n"
    early = headrace("statement", "result", hanging)
    assert (early.returncode, early.stdout) == (6, "")


def test_cancel(node: ScriptedNode, headrace: Headrace, hanging: str) -> None:
    assert headrace("statement", "cancel", hanging).stdout == "cancelled\n"
    assert node.statements[hanging]["state"] == "cancelled"
    again = headrace("statement", "cancel", hanging)
    assert (again.returncode, again.stderr) == (6, f"error: {hanging} has ended.\n")


def test_wait(node: ScriptedNode, headrace: Headrace, done: str, failed: str, hanging: str) -> None:
    ended = headrace("statement", "wait", done)
    assert (ended.returncode, ended.stdout) == (0, "success\n")
    assert headrace("statement", "wait", failed).returncode == 1
    late = headrace("statement", "wait", hanging, "--timeout", "20ms")
    assert (late.returncode, late.stdout) == (4, "running\n")
    assert node.statements[hanging]["state"] == "running"


def test_attach(headrace: Headrace, done: str, failed: str) -> None:
    assert headrace("statement", "attach", done, "--format", "jsonl").stdout == '{"x": 1}\n'
    assert headrace("statement", "attach", failed).returncode == 1
