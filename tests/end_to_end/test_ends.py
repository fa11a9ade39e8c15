"""Statements and drivers that have to end, on real Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

LONG = "SELECT count(*) FROM range(1000000000000) WHERE id % 3 = 7"
# Folded while it is planned: there is no job that could be cancelled.
DEAF = """
    SELECT size(transform(sequence(1, 1000000),
                          x -> aggregate(sequence(1, 1000000), 0L, (a, y) -> a + x * y)))
"""


def wait_running(node: NodeProcess, statement_id: str) -> None:
    wait_until(
        lambda: node.statement(statement_id)["state"] == "running", what="the statement runs"
    )


def test_a_statement_that_runs_for_too_long_is_stopped(node: NodeProcess, session: str) -> None:
    statement = node.run(LONG, session, timeout="1s")
    assert (statement["state"], statement["error"]["code"]) == ("timeout", "statement_timeout")
    # The job is gone, the driver free.
    assert node.rows("SELECT count(*) FROM range(7)", session) == [["7"]]


def test_what_follows_a_cancelled_statement_is_not_cancelled(
    node: NodeProcess, session: str
) -> None:
    """They share a thread of the driver, and Spark's tags stay on a thread."""
    for _ in range(3):
        statement = node.submit(LONG, session)
        wait_running(node, statement["id"])
        node.http.post(f"/api/v1/statements/{statement['id']}/cancel")
        counted = node.rows("SELECT count(*) FROM range(1000000) WHERE id % 2 = 0", session)
        assert counted == [["500000"]]
        assert node.statement(statement["id"])["state"] == "cancelled"


def test_a_long_statement_tells_how_far_it_is(node: NodeProcess, session: str) -> None:
    statement = node.submit(LONG, session)

    def progress() -> dict[str, int]:
        return node.statement(statement["id"])["progress"] or {}

    wait_until(lambda: progress().get("tasks_active", 0) > 0, what="tasks are at work")
    found = progress()
    assert found["jobs"] == 1
    assert found["tasks_done"] < found["tasks_total"]
    node.http.post(f"/api/v1/statements/{statement['id']}/cancel")
    assert node.statement(statement["id"], wait_timeout="20s")["state"] == "cancelled"


def test_a_batch_statement_runs_and_its_driver_quits(node: NodeProcess) -> None:
    statement = node.run("SELECT count(*) FROM range(3)", kind="batch")
    assert statement["rows"] == [["3"]]
    session = node.http.get(f"/api/v1/sessions/{statement['session_id']}").json()
    wait_until(lambda: node.session_state(session["id"]) == "dead", what="its session is dead")
    wait_until(lambda: not psutil.pid_exists(session["driver"]["pid"]), what="its driver is gone")


def test_a_driver_that_does_not_hear_a_cancel_is_ended(node: NodeProcess) -> None:
    session = node.session()
    node.wait_running(session)
    pid = node.http.get(f"/api/v1/sessions/{session}").json()["driver"]["pid"]
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert any("java" in one.name() for one in processes)
    statement = node.submit(DEAF, session)
    wait_running(node, statement["id"])
    begun = time.monotonic()
    node.http.post(f"/api/v1/statements/{statement['id']}/cancel")
    ended = node.statement(statement["id"], wait_timeout="30s")
    assert ended["state"] == "cancelled"
    assert 5 < time.monotonic() - begun < 20
    # Nothing of it was left when the state said so.
    assert not [one for one in processes if one.is_running() and one.status() != "zombie"]
    assert node.session_state(session) == "recovering"


def test_cancel_statement_stops_the_job(node: NodeProcess, session: str) -> None:
    statement = node.submit(LONG, session)
    wait_running(node, statement["id"])
    asked = node.run(f"CANCEL STATEMENT '{statement['id']}'")
    assert asked["rows"] == [[statement["id"], "cancelling"]]
    assert node.statement(statement["id"], wait_timeout="20s")["state"] == "cancelled"


def test_a_driver_that_cannot_start_says_why_in_sparks_own_words(node: NodeProcess) -> None:
    wrong = {
        "Master must either be yarn or start with": {"conf": {"spark.master": "nonsense"}},
        "could not add the jar /nowhere/x.jar": {"jars": ["/nowhere/x.jar"]},
        "/nowhere/data.csv": {"files": ["/nowhere/data.csv"]},
    }
    sessions = {words: node.session(**fields) for words, fields in wrong.items()}
    for words, session in sessions.items():
        wait_until(
            lambda one=session: node.session_state(one) == "failed",
            seconds=90,
            what=f"the session of {wrong[words]} has failed",
        )
        error = node.http.get(f"/api/v1/sessions/{session}").json()["error"]
        assert error["code"] == "spark_unavailable"
        assert words in error["message"]
        assert f"headrace session log {session}" in error["message"]
        assert "\tat " not in error["message"]


def test_ctrl_c_stops_the_spark_job(node: NodeProcess, session: str) -> None:
    """Spark's own status says so, within two seconds."""
    command = [Path(sys.executable).with_name("headrace"), "sql", "--session", session, LONG]
    environment = {**os.environ, "HEADRACE_SERVER": node.address}
    shown = node.http.get(f"/api/v1/sessions/{session}").json()["driver"]
    status = f"{shown['ui_url']}/api/v1/applications/{shown['application_id']}/jobs"

    def running_jobs() -> list[dict[str, Any]]:
        return list(httpx.get(status, params={"status": "running"}, timeout=60).json())

    # Spark's web UI takes its time over the first question.
    assert running_jobs() == []
    shell = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(running_jobs, what="the job runs")
        pressed = time.monotonic()
        shell.send_signal(signal.SIGINT)
        wait_until(lambda: running_jobs() == [], what="the job is gone")
        assert time.monotonic() - pressed < 2
        _out, told = shell.communicate(timeout=20)
    finally:
        shell.kill()
        shell.wait()
    assert "Cancelled st_" in told
    last = node.http.get("/api/v1/statements", params={"session": session, "limit": 1}).json()
    assert last["items"][0]["state"] == "cancelled"
