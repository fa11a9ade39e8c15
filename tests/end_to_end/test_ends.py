"""Ends of statements and drivers on real Spark: timeouts, cancels and failed starts."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.support.node import NodeProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

LONG = "SELECT count(*) FROM range(1000000000000) WHERE id % 3 = 7"
PATIENT = {"spark.hadoop.dfs.webhdfs.socket.read-timeout": "10m"}


@pytest.fixture
def uncancellable() -> Iterator[str]:
    """Yield a query during whose analysis the driver waits for a server that never answers.

    No job exists that can be cancelled. The conf of its session is PATIENT.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"SELECT * FROM text.`webhdfs://127.0.0.1:{server.getsockname()[1]}/rows`"


def wait_running(node: NodeProcess, statement_id: str) -> None:
    wait_until(
        lambda: node.statement(statement_id)["state"] == "running", what="the statement runs"
    )


def test_a_statement_that_exceeds_its_timeout_is_stopped(node: NodeProcess, session: str) -> None:
    statement = node.run(LONG, session, timeout="1s")
    assert (statement["state"], statement["error"]["code"]) == ("timeout", "statement_timeout")
    # The job has ended, so the driver can run the next statement.
    assert node.rows("SELECT count(*) FROM range(7)", session) == [["7"]]


def test_the_statement_after_a_cancelled_one_is_not_cancelled(
    node: NodeProcess, session: str
) -> None:
    # The second statement gets the thread of the first, and Spark's job tags belong to a thread.
    for _ in range(3):
        statement = node.submit(LONG, session)
        wait_running(node, statement["id"])
        node.http.post(f"/api/v1/statements/{statement['id']}/cancel")
        assert node.wait_ended(statement["id"])["state"] == "cancelled"
        counted = node.rows("SELECT count(*) FROM range(1000000) WHERE id % 2 = 0", session)
        assert counted == [["500000"]]


def test_a_long_statement_reports_its_progress(node: NodeProcess, session: str) -> None:
    statement = node.submit(LONG, session)

    def read_progress() -> dict[str, int]:
        return node.statement(statement["id"])["progress"] or {}

    wait_until(lambda: read_progress().get("tasks_active", 0) > 0, what="tasks are active")
    progress = read_progress()
    assert progress["jobs"] == 1
    assert progress["tasks_done"] < progress["tasks_total"]
    node.http.post(f"/api/v1/statements/{statement['id']}/cancel")
    assert node.wait_ended(statement["id"])["state"] == "cancelled"


def test_the_driver_of_a_batch_statement_ends_after_it(node: NodeProcess) -> None:
    statement = node.run("SELECT count(*) FROM range(3)", kind="batch")
    assert statement["rows"] == [["3"]]
    session = node.http.get(f"/api/v1/sessions/{statement['session_id']}").json()
    wait_until(lambda: node.session_state(session["id"]) == "dead", what="the session is dead")
    wait_until(lambda: not psutil.pid_exists(session["driver"]["pid"]), what="the driver has ended")


def test_a_statement_that_ignores_a_cancel_ends_with_its_driver(
    node: NodeProcess, uncancellable: str
) -> None:
    session = node.session(conf=PATIENT)
    node.wait_running(session)
    pid = node.http.get(f"/api/v1/sessions/{session}").json()["driver"]["pid"]
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert any("java" in process.name() for process in processes)
    statement = node.submit(uncancellable, session)
    wait_running(node, statement["id"])
    begin = time.monotonic()
    node.http.post(f"/api/v1/statements/{statement['id']}/cancel")
    ended = node.wait_ended(statement["id"])
    assert ended["state"] == "cancelled"
    # Without the cancel, the driver would wait for ten minutes.
    assert 5 < time.monotonic() - begin < 120
    # The processes end before the state changes.
    assert list_running(processes) == []
    assert "recovering" in [event["to"] for event in node.events(session)]


@pytest.mark.finding("B2")
def test_a_closed_session_is_dead_when_its_processes_have_ended_although_two_queries_ignore_it(
    node: NodeProcess, uncancellable: str
) -> None:
    session = node.session(parallelism=2, conf=PATIENT)
    node.wait_running(session)
    pid = node.http.get(f"/api/v1/sessions/{session}").json()["driver"]["pid"]
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for statement in [node.submit(uncancellable, session) for _ in range(2)]:
        wait_running(node, statement["id"])
    node.http.delete(f"/api/v1/sessions/{session}")
    wait_until(lambda: node.session_state(session) == "dead", seconds=120, what="it is dead")
    assert list_running(processes) == []


def list_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [
        process
        for process in processes
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]


def test_the_sql_command_cancel_statement_stops_the_job(node: NodeProcess, session: str) -> None:
    statement = node.submit(LONG, session)
    wait_running(node, statement["id"])
    cancel = node.run(f"CANCEL STATEMENT '{statement['id']}'")
    assert cancel["rows"] == [[statement["id"], "cancelling"]]
    assert node.wait_ended(statement["id"])["state"] == "cancelled"


def test_the_error_of_a_failed_start_contains_the_message_of_spark(node: NodeProcess) -> None:
    faulty = {
        "Master must either be yarn or start with": {"conf": {"spark.master": "nonsense"}},
        "could not add the jar /nowhere/x.jar": {"jars": ["/nowhere/x.jar"]},
        "/nowhere/data.csv": {"files": ["/nowhere/data.csv"]},
    }
    sessions = {message: node.session(**fields) for message, fields in faulty.items()}
    for message, session in sessions.items():
        wait_until(
            lambda session=session: node.session_state(session) == "failed",
            seconds=240,
            what=f"the session of {faulty[message]} has failed",
        )
        error = node.http.get(f"/api/v1/sessions/{session}").json()["error"]
        assert error["code"] == "spark_unavailable"
        assert message in error["message"]
        assert f"headrace session log {session}" in error["message"]
        assert "\tat " not in error["message"]


def test_ctrl_c_in_the_shell_stops_the_spark_job_and_not_its_driver(
    node: NodeProcess, session: str
) -> None:
    command = [Path(sys.executable).with_name("headrace"), "sql", "--session", session, LONG]
    driver = node.http.get(f"/api/v1/sessions/{session}").json()["driver"]
    status = f"{driver['ui_url']}/api/v1/applications/{driver['application_id']}/jobs"

    def read_running_jobs() -> list[dict[str, Any]]:
        return list(httpx.get(status, params={"status": "running"}, timeout=60).json())

    # Spark lists the jobs of earlier tests until its listeners know of their ends.
    wait_until(lambda: read_running_jobs() == [], what="no job runs")
    shell = subprocess.Popen(
        command,
        env=node.client_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(read_running_jobs, what="the job runs")
        shell.send_signal(signal.SIGINT)
        wait_until(lambda: read_running_jobs() == [], what="the job has ended")
        _stdout, stderr = shell.communicate(timeout=120)
    finally:
        shell.kill()
        shell.wait()
    assert "Cancelled st_" in stderr
    last = node.http.get("/api/v1/statements", params={"session": session, "limit": 1}).json()
    assert last["items"][0]["state"] == "cancelled"
    assert node.describe_session(session)["driver"]["pid"] == driver["pid"]
