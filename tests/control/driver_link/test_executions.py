"""Plans and stages of statements, from the report of a driver to the API."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.support.executions import make_execution, make_stage
from tests.support.in_process_node import InProcessNode
from tests.support.node_client import Json
from tests.support.scripted_driver import ScriptedDriver

from headrace.model.ids import new_id
from headrace.model.lifecycle import StatementState
from headrace.model.messages import MAX_EXECUTIONS, MAX_EXECUTIONS_BODY

EXECUTION = make_execution()


def run(node: InProcessNode, state: StatementState) -> tuple[str, ScriptedDriver]:
    session_id, driver = node.start_session()
    statement_id: str = node.submit(session=session_id)["id"]
    driver.claim()
    if state is StatementState.SUCCESS:
        driver.succeed(statement_id)
    elif state is not StatementState.LAUNCHED:
        driver.report_end(statement_id, state)
    return statement_id, driver


def show(node: InProcessNode, statement_id: str) -> tuple[int, Json]:
    answer = node.http.get(f"/api/v1/statements/{statement_id}/execution")
    return answer.status_code, answer.json()


@pytest.mark.parametrize("state", [StatementState.SUCCESS, StatementState.FAILED])
def test_the_plan_and_the_stages_of_an_ended_statement_are_shown(
    node: InProcessNode, state: StatementState
) -> None:
    statement_id, driver = run(node, state)
    status, problem = show(node, statement_id)
    assert (status, problem["code"]) == (404, "execution_not_found")
    assert "has started no Spark job" in problem["detail"]
    assert driver.report_executions({statement_id: EXECUTION}).applied

    status, shown = show(node, statement_id)
    assert status == 200
    assert shown["plan"] == EXECUTION.plan
    assert shown["operators"] == [each.model_dump() for each in EXECUTION.operators]
    [stage] = shown["stages"]
    assert stage["ended_at"] == "2026-11-25T10:00:03.000000Z"
    assert (stage["state"], stage["longest_task_seconds"]) == ("complete", 3.0)
    assert (shown["operators_omitted"], shown["stages_omitted"]) == (0, 0)


def test_a_statement_that_runs_has_no_plan_yet(node: InProcessNode) -> None:
    statement_id, driver = run(node, StatementState.LAUNCHED)
    assert not driver.report_executions({statement_id: EXECUTION}).applied
    status, problem = show(node, statement_id)
    assert (status, problem["code"]) == (404, "execution_not_found")
    assert "the driver reports them after the end" in problem["detail"]


def test_a_statement_that_does_not_exist_has_no_plan(node: InProcessNode) -> None:
    status, problem = show(node, new_id("st"))
    assert (status, problem["code"]) == (404, "statement_not_found")


def test_what_was_reported_stays_when_the_driver_is_lost(node: InProcessNode) -> None:
    statement_id, driver = run(node, StatementState.FAILED)
    driver.report_executions({statement_id: EXECUTION})
    node.fail_session(driver.bootstrap.session_id, driver)
    assert show(node, statement_id)[0] == 200
    with pytest.raises(httpx.HTTPStatusError) as refused:
        driver.report_executions({statement_id: EXECUTION})
    assert refused.value.response.json()["code"] == "lease_lost"


def test_a_driver_reports_the_executions_of_its_own_statements_only(node: InProcessNode) -> None:
    victim, driver = run(node, StatementState.SUCCESS)
    own, stranger = run(node, StatementState.SUCCESS)
    assert not stranger.report_executions({victim: EXECUTION}).applied
    assert stranger.report_executions({victim: EXECUTION, own: EXECUTION}).applied
    assert show(node, victim)[0] == 404
    assert driver.report_executions({victim: EXECUTION}).applied


def test_the_values_of_secrets_in_a_plan_are_hidden(node: InProcessNode) -> None:
    statement_id, driver = run(node, StatementState.SUCCESS)
    url = "jdbc:postgresql://db/x?user=ada&password=hunter22"
    execution = make_execution(
        f"Scan JDBCRelation({url})",
        operators=[{"depth": 0, "name": f"Scan {url}", "metrics": {}}],
        stages=[make_stage(failure=f"no connection to {url}")],
    )
    driver.report_executions({statement_id: execution})
    shown = show(node, statement_id)[1]
    assert "hunter22" not in json.dumps(shown)
    assert "password=*********(redacted)" in shown["plan"]


def post(driver: ScriptedDriver, content: bytes) -> tuple[int, str]:
    answer = driver._client.post("/executed", content=content)
    return answer.status_code, answer.json()["code"]


def test_a_report_that_is_too_large_or_not_valid_is_refused(node: InProcessNode) -> None:
    statement_id, driver = run(node, StatementState.SUCCESS)
    report: dict[str, Any] = json.loads(EXECUTION.model_dump_json())
    spaces = b" " * MAX_EXECUTIONS_BODY
    many = {new_id("st"): report for _number in range(MAX_EXECUTIONS + 1)}
    endless = report | {"stages": [report["stages"][0] | {"run_seconds": "1e999"}]}
    assert post(driver, spaces + b"{}") == (413, "report_too_large")
    assert post(driver, json.dumps({"executions": many}).encode()) == (400, "invalid_request")
    for execution in (endless, {}, None):
        content = json.dumps({"executions": {statement_id: execution}})
        content = content.replace('"1e999"', "1e999")
        assert post(driver, content.encode()) == (400, "invalid_request")
    assert show(node, statement_id)[0] == 404
