from __future__ import annotations

import json

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import Request, Response, ScriptedNode
from tests.support.executions import make_execution, make_stage

from headrace.model.execution import SparkOperator


@pytest.fixture
def successful(node: ScriptedNode, headrace: RunHeadrace) -> str:
    """Id of a statement with one row."""
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    return headrace("sql", "SELECT 1", "--detach").stdout.strip()


@pytest.fixture
def failed(node: ScriptedNode, headrace: RunHeadrace) -> str:
    error = {"code": "syntax_error", "message": "Bad.", "line": 1, "column": 1, "trace": "at X"}
    node.on("SELEC", state="failed", error=error)
    return headrace("sql", "SELEC", "--detach").stdout.strip()


@pytest.fixture
def hanging(node: ScriptedNode, headrace: RunHeadrace) -> str:
    node.on("SELECT 2", hangs=True)
    return headrace("sql", "SELECT 2", "--detach").stdout.strip()


def test_list_shows_statements_newest_first(
    headrace: RunHeadrace, successful: str, failed: str
) -> None:
    lines = headrace("statement", "list").stdout.splitlines()
    assert lines[0] == "id,state,statement,session_id,owner,created_at,ended_at"
    assert [line.split(",")[:3] for line in lines[1:]] == [
        [failed, "failed", "SELEC"],
        [successful, "success", "SELECT 1"],
    ]


def test_list_names_the_next_page(headrace: RunHeadrace, successful: str, failed: str) -> None:
    page = headrace("statement", "list", "--limit", "1", "--format", "json")
    assert [item["id"] for item in json.loads(page.stdout)] == [failed]
    assert f"--before {failed}" in page.stderr


@pytest.mark.finding("U11")
def test_show_says_in_words_what_a_statement_waits_for(
    node: ScriptedNode, headrace: RunHeadrace
) -> None:
    reason = {"code": "queue", "text": "It is behind 2 statements of its session."}
    node.on("SELECT 3", outcome={"waiting_for": reason})
    statement = headrace("sql", "SELECT 3", "--detach").stdout.strip()
    lines = headrace("statement", "show", statement).stdout.splitlines()
    [line] = [line for line in lines if line.startswith("waiting_for ")]
    assert line.removeprefix("waiting_for").strip() == reason["text"]
    shown = json.loads(headrace("statement", "show", statement, "--format", "json").stdout)
    assert shown["waiting_for"] == reason


def test_show_includes_the_stack_trace_with_debug_only(
    headrace: RunHeadrace, successful: str, failed: str
) -> None:
    lines = headrace("statement", "show", successful).stdout.splitlines()
    assert f"id             {successful}" in lines
    assert "state          success" in lines
    shown = json.loads(headrace("statement", "show", failed, "--format", "json").stdout)
    assert (shown["error"]["message"], shown["error"]["trace"]) == ("Bad.", None)
    traced = headrace("statement", "show", failed, "--format", "json", "--debug").stdout
    assert json.loads(traced)["error"]["trace"] == "at X"


def test_an_unknown_statement_is_a_usage_error(headrace: RunHeadrace) -> None:
    unknown = "st_" + "f" * 32
    for name in ("x", unknown):
        completed = headrace("statement", "show", name)
        error = f"error: There is no statement {name!r}.\n"
        assert (completed.returncode, completed.stderr) == (2, error)


def test_result_prints_rows_or_the_error(
    headrace: RunHeadrace, successful: str, failed: str, hanging: str
) -> None:
    assert headrace("statement", "result", successful).stdout == "x\n1\n"
    failure = headrace("statement", "result", failed)
    assert failure.returncode == 1
    assert failure.stderr == "error: Bad. (line 1, column 1)\n   1 │ SELEC\n     │ ^\n"
    early = headrace("statement", "result", hanging)
    assert (early.returncode, early.stdout) == (6, "")


def test_result_prints_the_rows_of_a_statement_that_ends_meanwhile(
    node: ScriptedNode,
    headrace: RunHeadrace,
    hanging: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node.on("SELECT 2", columns=[("x", "int")], chunks=[[[2]]])
    read = node._get_result

    def end_and_read(request: Request, id_: str) -> Response:
        node._end(node.statements[id_], "success")
        return read(request, id_)

    monkeypatch.setattr(node, "_get_result", end_and_read)
    completed = headrace("statement", "result", hanging)
    assert (completed.returncode, completed.stdout) == (0, "x\n2\n")


def test_cancel_prints_the_final_state(
    node: ScriptedNode, headrace: RunHeadrace, hanging: str
) -> None:
    assert headrace("statement", "cancel", hanging).stdout == "cancelled\n"
    assert node.statements[hanging]["state"] == "cancelled"
    again = headrace("statement", "cancel", hanging)
    assert (again.returncode, again.stderr) == (6, f"error: {hanging} has ended.\n")


def test_wait_prints_the_state_and_gives_up_after_its_timeout(
    node: ScriptedNode, headrace: RunHeadrace, successful: str, failed: str, hanging: str
) -> None:
    success = headrace("statement", "wait", successful)
    assert (success.returncode, success.stdout) == (0, "success\n")
    assert headrace("statement", "wait", failed).returncode == 1
    late = headrace("statement", "wait", hanging, "--timeout", "20ms")
    assert (late.returncode, late.stdout) == (4, "running\n")
    assert node.statements[hanging]["state"] == "running"


def test_attach_prints_the_rows(headrace: RunHeadrace, successful: str, failed: str) -> None:
    assert headrace("statement", "attach", successful, "--format", "jsonl").stdout == '{"x": 1}\n'
    assert headrace("statement", "attach", failed).returncode == 1


@pytest.mark.parametrize("force", [False, True])
def test_cancel_sends_force(node: ScriptedNode, headrace: RunHeadrace, force: bool) -> None:
    node.on("SELECT 2", hangs=True)
    statement = headrace("sql", "SELECT 2", "--detach").stdout.strip()
    flags = ["--force"] if force else []
    assert headrace("statement", "cancel", statement, *flags).stdout == "cancelled\n"
    (call,) = node.calls("POST", f"/api/v1/statements/{statement}/cancel")
    assert call.query == ({"force": "true"} if force else {})


@pytest.mark.parametrize("view", ["waiting", "running", "slow"])
def test_list_requests_what_waits_runs_or_was_slow(
    node: ScriptedNode, headrace: RunHeadrace, hanging: str, view: str
) -> None:
    reason = {"code": "queue", "text": "It is behind 2 statements."}
    node.statements[hanging] |= {"waiting_since": "2026-11-27T00:00:00Z", "waiting_for": reason}
    shown = headrace("statement", "list", f"--{view}", "--over", "90s").stdout
    (call,) = node.calls("GET", "/api/v1/statements")
    assert (call.query["view"], call.query["over"]) == (view, "90s")
    header, line = shown.splitlines()
    assert header.split(",")[0] == "id"
    assert line.startswith(hanging)
    assert (reason["text"] in line) == (view != "slow")
    shown = headrace("statement", "list", f"--{view}", "--format", "json").stdout
    assert json.loads(shown)[0]["waiting_for"] == reason


def test_list_refuses_times_and_flags_that_have_no_meaning(headrace: RunHeadrace) -> None:
    for flags, message in (
        (["--slow", "--waiting"], "--waiting and --slow exclude each other"),
        (["--over", "1min"], "--over needs --waiting, --running or --slow"),
        (["--slow", "--over", "10"], "--over: '10' is not a duration. Add a unit"),
        (["--waiting", "--over", "-5s"], "--over: '-5s' is not a duration"),
    ):
        refused = headrace("statement", "list", *flags)
        assert refused.returncode == 2
        assert message in refused.stderr


def test_plan_prints_the_plan_its_metrics_and_the_stages(
    node: ScriptedNode, headrace: RunHeadrace, successful: str
) -> None:
    operators = [
        SparkOperator(depth=0, name="Sort", metrics={"sort time": "total (min, max)\n3 ms (1, 2)"}),
        SparkOperator(depth=1, name="Scan", metrics={}),
    ]
    stages = [
        make_stage(3, shuffle_bytes_written=2048),
        make_stage(4, attempt=1, state="failed", tasks_failed=4, median_task_seconds=None),
    ]
    execution = make_execution(operators=operators, stages=stages, stages_omitted=5)
    node.execution = json.loads(execution.model_dump_json())
    text = headrace("statement", "plan", successful).stdout
    assert text.startswith(
        "== Physical Plan ==\nScan\n\n== Metrics ==\nSort  sort time: 3 ms (1, 2)"
    )
    assert "\n  Scan\n\n== Stages ==\n" in text
    assert text.endswith("… and 5 further stages\n")
    assert json.loads(
        headrace("statement", "plan", successful, "--format", "json").stdout
    ) == json.loads(execution.model_dump_json())
    lines = headrace("statement", "plan", successful, "--format", "csv").stdout.splitlines()
    assert lines[1].startswith("3,0,complete,2,2,0,4.5,1.5,3.0,0,0,0,2048,0,")
    assert lines[2].startswith("4,1,failed,2,2,4,4.5,,3.0,")
