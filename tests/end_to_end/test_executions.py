"""Plans and stages of real statements, which outlive their drivers."""

from __future__ import annotations

from typing import Any

import httpx
import psutil
import pytest
from tests.support.node import NodeProcess
from tests.support.processes import kill_with_descendants
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SHUFFLE = "SELECT k, count(*) FROM (SELECT id % 7 AS k FROM range(0, 100000, 1, 4)) GROUP BY k"


def show(node: NodeProcess, statement_id: str) -> Any:
    """Return the execution of a statement that has just ended."""
    path = f"/api/v1/statements/{statement_id}/execution"
    wait_until(lambda: node.http.get(path).status_code == 200, what="the execution is stored")
    return node.http.get(path).json()


def test_the_plan_and_the_stages_of_a_shuffle_outlive_the_driver(node: NodeProcess) -> None:
    session = node.session()
    statement = node.run(SHUFFLE, session)
    execution = show(node, statement["id"])
    assert "Exchange" in execution["plan"]
    assert "isFinalPlan=true" in execution["plan"]
    writing, *_others, reading = execution["stages"]
    assert (writing["tasks_done"], writing["tasks_total"]) == (4, 4)
    assert writing["shuffle_bytes_written"] == reading["shuffle_bytes_read"] > 0
    assert any("number of output rows" in each["metrics"] for each in execution["operators"])

    driver = psutil.Process(node.describe_session(session)["driver"]["pid"])
    kill_with_descendants(driver)
    node.http.delete(f"/api/v1/sessions/{session}")
    assert show(node, statement["id"]) == execution


def test_a_failed_statement_keeps_its_stages(node: NodeProcess, session: str) -> None:
    statement = node.run(f"SELECT raise_error('wrong') FROM ({SHUFFLE})", session)
    assert statement["state"] == "failed"
    stages = show(node, statement["id"])["stages"]
    assert [stage["state"] for stage in stages] == ["complete", "failed"]
    assert "wrong" in stages[1]["failure"]


def test_a_table_that_is_written_has_the_plan_of_its_rows(node: NodeProcess, session: str) -> None:
    statement = node.run(f"CREATE TABLE written USING parquet AS {SHUFFLE}", session)
    assert statement["state"] == "success"
    execution = show(node, statement["id"])
    assert "Exchange" in execution["plan"]
    assert sum(stage["rows_written"] for stage in execution["stages"]) == 7


def test_a_driver_that_ends_after_its_statement_has_reported_it(node: NodeProcess) -> None:
    statement = node.run(SHUFFLE, kind="batch")
    assert "Exchange" in show(node, statement["id"])["plan"]


def test_a_statement_without_a_job_has_no_plan(node: NodeProcess, session: str) -> None:
    constant = node.run("SELECT 1", session)
    counted = node.run(SHUFFLE, session)
    # Reports arrive in the order of the statements.
    show(node, counted["id"])
    answer = node.http.get(f"/api/v1/statements/{constant['id']}/execution")
    assert (answer.status_code, answer.json()["code"]) == (404, "execution_not_found")


def test_a_stop_is_proved_by_spark_which_runs_no_task_of_the_statement(
    node: NodeProcess, session: str
) -> None:
    endless = "SELECT sum(hash(id)) FROM range(0, 1000000000000000, 1, 2)"
    statement = node.submit(endless, session)["id"]

    def is_running() -> bool:
        progress = node.statement(statement)["progress"]
        return bool(progress and progress["tasks_active"])

    wait_until(is_running, seconds=60, what="its tasks run")
    node.http.post(f"/api/v1/statements/{statement}/cancel", json={})
    assert show(node, statement)["tasks_active"] == 0
    page = node.http.get(f"/ui/statements/{statement}").text
    steps = page[page.index("<h2>Stop</h2>") : page.index("<h2>SQL</h2>")]
    assert "asked by" in steps
    assert "the driver has confirmed the stop" in steps
    assert "0 tasks of it run in Spark" in steps
    jobs = list_jobs(node, session, statement)
    assert jobs
    assert {(job["status"], job["numActiveTasks"]) for job in jobs} == {("FAILED", 0)}


def list_jobs(node: NodeProcess, session: str, tag: str) -> list[Any]:
    """Return the jobs of a statement by Spark's REST API."""
    address = node.describe_session(session)["driver"]["ui_url"]
    with httpx.Client(base_url=f"{address}/api/v1/", trust_env=False) as spark:
        [application] = spark.get("applications").json()
        jobs = spark.get(f"applications/{application['id']}/jobs").json()
    return [job for job in jobs if tag in job["jobTags"]]
