"""Livy's batches: a file runs in a session of its own, which ends with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process_node import (
    InProcessNode,
    StartNode,
    make_settings,
    serve_node,
    watch_polls,
)
from tests.support.made_results import inline_result
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.model.failure import Failure
from headrace.model.job_messages import FileLanguage, FileRead, FileStatement, RunFile, TaskDone
from headrace.model.lifecycle import StatementState
from headrace.store.jobs import jobs

Json = dict[str, Any]
BASE = "/livy/batches"
NOTHING = inline_result([], [])
FAILURE = Failure(code="analysis_error", condition="TABLE_OR_VIEW_NOT_FOUND", message="No t.")


def call(
    node: InProcessNode, method: str, path: str = "", status: int = 200, **options: Any
) -> Json:
    response = node.http.request(method, f"{BASE}{path}", **options)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body: Json = response.json()
    return body


def submit(node: InProcessNode, file: str = "/data/a.sql", **body: Any) -> int:
    batch = call(node, "POST", status=201, json={"file": file, **body})
    assert batch["state"] == "starting"
    number: int = batch["id"]
    return number


def session_of(node: InProcessNode, number: int) -> str:
    session_id: str = node.http.get(f"/api/v1/sessions/{number}").json()["id"]
    return session_id


def connect(node: InProcessNode, number: int, *, launch: int = 1) -> ScriptedDriver:
    driver = node.launcher.connect_driver(session_of(node, number), launch=launch)
    driver.announces_effects = True
    driver.hello()
    return driver


def state(node: InProcessNode, number: int) -> str:
    answer = call(node, "GET", f"/{number}/state")
    assert answer["id"] == number
    text: str = answer["state"]
    return text


def log(node: InProcessNode, number: int) -> list[str]:
    lines: list[str] = call(node, "GET", f"/{number}/log")["log"]
    return lines


def read_file(driver: ScriptedDriver, *statements: str) -> None:
    """Let the driver read a SQL file with these statements, one in each line."""
    assignment = driver.claim()
    assert assignment.command == "RUN FILE"
    assert assignment.is_query
    assert isinstance(assignment.task, RunFile)
    assert assignment.task.language is FileLanguage.SQL
    read = FileRead(
        statements=[
            FileStatement(text=text, line=line) for line, text in enumerate(statements, start=1)
        ]
    )
    driver.succeed(assignment.statement_id, NOTHING, task_outcome=read)


def run_next(driver: ScriptedDriver, expected: str, failure: Failure | None = None) -> None:
    """Let the driver run the next statement of the file, which must be the expected one."""
    assignment = driver.claim()
    assert (assignment.text, assignment.command) == (expected, None)
    if failure is None:
        driver.succeed(assignment.statement_id)
    else:
        driver.report_end(assignment.statement_id, StatementState.FAILED, failure=failure)


def statements_of(node: InProcessNode, number: int) -> list[tuple[str, str]]:
    """Return text and state of the statements of a batch, in their order."""
    listed = node.http.get("/api/v1/statements", params={"session": number}).json()["items"]
    return [(each["statement"], each["state"]) for each in reversed(listed)]


def end(node: InProcessNode, number: int, driver: ScriptedDriver) -> None:
    """Let the driver of a batch that has ended say goodbye, and wait for the end of its session."""
    assert driver.poll().close
    driver.goodbye()
    session_id = session_of(node, number)
    wait_until(lambda: node.session_state(session_id) == "dead", what="the session ends")


def test_the_statements_of_a_file_run_one_after_the_other(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    assert state(node, number) == "running"
    read_file(driver, "CREATE TABLE t (a INT)", "SELECT 1", "SELECT 2")
    first = driver.claim()
    assert first.text == "CREATE TABLE t (a INT)"
    assert driver.poll(in_flight=[first.statement_id]).assignment is None
    driver.succeed(first.statement_id, NOTHING)
    second = driver.claim()
    # Queries of a file do not overtake each other, whatever the parallelism of sessions is.
    assert driver.poll(in_flight=[second.statement_id]).assignment is None
    driver.succeed(second.statement_id)
    assert state(node, number) == "running"
    run_next(driver, "SELECT 2")
    assert state(node, number) == "success"
    end(node, number, driver)
    batch = call(node, "GET", f"/{number}")
    assert (batch["state"], batch["appId"]) == ("success", "local-1")
    assert statements_of(node, number) == [
        ("RUN FILE: /data/a.sql", "success"),
        ("CREATE TABLE t (a INT)", "success"),
        ("SELECT 1", "success"),
        ("SELECT 2", "success"),
    ]


def test_a_failure_stops_the_file(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    read_file(driver, "SELECT * FROM t", "SELECT 2")
    run_next(driver, "SELECT * FROM t", FAILURE)
    assert driver.poll().close
    assert state(node, number) == "dead"
    assert statements_of(node, number)[1:] == [
        ("SELECT * FROM t", "failed"),
        ("SELECT 2", "cancelled"),
    ]
    assert log(node, number)[-1].startswith("Statement 1 failed: ")
    assert "No t." in log(node, number)[-1]


def test_a_statement_that_is_cancelled_while_it_waits_stops_the_file(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    read_file(driver, "SELECT 1", "SELECT 2", "SELECT 3")
    waiting = node.http.get("/api/v1/statements", params={"session": number}).json()["items"][1]
    running = driver.claim()
    node.http.post(f"/api/v1/statements/{waiting['id']}/cancel").raise_for_status()
    driver.succeed(running.statement_id)
    orders = driver.poll(wait=1)
    assert (orders.assignment, orders.close) == (None, True)
    assert state(node, number) == "killed"


def test_a_poll_that_waits_claims_nothing_after_a_cancel(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    read_file(driver, "SELECT 1", "SELECT 2", "SELECT 3")
    waiting = node.http.get("/api/v1/statements", params={"session": number}).json()["items"][1]
    running = driver.claim()
    node.http.post(f"/api/v1/statements/{waiting['id']}/cancel").raise_for_status()
    with watch_polls(node) as polled, ThreadPoolExecutor(1) as threads:
        # The first poll at a process is short.
        driver.poll(in_flight=[running.statement_id], wait=10)
        polled.clear()
        poll = threads.submit(driver.poll, in_flight=[running.statement_id], wait=10)
        assert polled.wait(60)
        driver.succeed(running.statement_id)
        assert poll.result().assignment is None
    assert driver.poll().close


def test_a_python_file_runs_in_its_statement(node: InProcessNode) -> None:
    number = submit(node, "s3://bucket/a.py", args=["2026-01-01", "x"])
    driver = connect(node, number)
    assignment = driver.claim()
    assert assignment.task == RunFile(
        location="s3://bucket/a.py",
        language=FileLanguage.PYTHON,
        arguments=["2026-01-01", "x"],
    )
    assert not assignment.is_query
    driver.succeed(assignment.statement_id, NOTHING, task_outcome=TaskDone())
    assert state(node, number) == "success"
    end(node, number, driver)
    assert state(node, number) == "success"


def test_a_delete_kills_a_batch_and_succeeds_twice(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    read_file(driver, "SELECT 1", "SELECT 2")
    running = driver.claim()
    for _ in range(2):
        assert call(node, "DELETE", f"/{number}") == {"msg": "deleted"}
    assert driver.poll(in_flight=[running.statement_id]).cancel == [running.statement_id]
    driver.report_end(running.statement_id, StatementState.CANCELLED)
    end(node, number, driver)
    assert state(node, number) == "killed"
    assert call(node, "DELETE", f"/{number}") == {"msg": "deleted"}
    assert state(node, number) == "killed"


def test_a_batch_that_ends_before_its_driver_starts_is_killed(start_node: StartNode) -> None:
    # No sweep starts a driver.
    node = start_node(lease={"sweep": "1h"})
    number = submit(node)
    call(node, "DELETE", f"/{number}")
    wait_until(lambda: state(node, number) == "killed", what="the batch ends")


def test_a_lost_driver_repeats_a_query_of_the_file(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    read_file(driver, "SELECT 1", "SELECT 2")
    lost = driver.claim()
    node.launcher.report_exit(session_of(node, number), "it was killed")
    again = connect(node, number, launch=2)
    assert state(node, number) == "running"
    repeated = again.claim()
    assert (repeated.statement_id, repeated.attempt) == (lost.statement_id, 2)
    again.succeed(repeated.statement_id)
    run_next(again, "SELECT 2")
    assert state(node, number) == "success"


def test_a_lost_driver_reads_the_file_again(node: InProcessNode) -> None:
    number = submit(node)
    connect(node, number).claim()
    node.launcher.report_exit(session_of(node, number), "it was killed")
    again = connect(node, number, launch=2)
    read_file(again, "SELECT 1")
    run_next(again, "SELECT 1")
    assert state(node, number) == "success"


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_python_file_runs_again_only_if_it_had_not_begun(
    node: InProcessNode, has_begun: bool
) -> None:
    number = submit(node, "/data/a.py")
    driver = connect(node, number)
    lost = driver.claim()
    if has_begun:
        driver.report_start(lost.statement_id, has_effects=True)
    node.launcher.report_exit(session_of(node, number), "it was killed")
    if has_begun:
        wait_until(lambda: state(node, number) == "dead", what="the batch dies")
        assert "The driver was lost" in log(node, number)[-1]
        session_id = session_of(node, number)
        wait_until(lambda: node.session_state(session_id) == "dead", what="the session ends")
    else:
        assert connect(node, number, launch=2).claim().statement_id == lost.statement_id


def test_a_lost_driver_fails_a_write_and_no_further_driver_starts(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    read_file(driver, "INSERT INTO t VALUES (1)", "SELECT 2")
    running = driver.claim()
    driver.report_start(running.statement_id, has_effects=True)
    node.launcher.report_exit(session_of(node, number), "it was killed")
    session_id = session_of(node, number)
    wait_until(lambda: node.session_state(session_id) == "dead", what="the session ends")
    assert state(node, number) == "dead"
    assert [each[1] for each in statements_of(node, number)] == ["success", "failed", "cancelled"]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("SAVE STREAM s TO k IDENTIFIED BY q", "line 2 of the file is SAVE STREAM"),
        ("SHOW STREAMS", "line 2 of the file is SHOW STREAMS"),
        ("SELECT '${secret:}'", "line 2 of the file: "),
        ("LIST TABLES SCHEMA LIKE '" + "x" * 1024 * 1024 + "'", "line 2 of the file: "),
    ],
)
def test_no_statement_of_a_file_runs_if_one_cannot(
    node: InProcessNode, statement: str, text: str
) -> None:
    number = submit(node)
    driver = connect(node, number)
    read_file(driver, "SELECT 1", statement)
    assert state(node, number) == "dead"
    assert [each[1] for each in statements_of(node, number)] == ["failed"]
    assert text in log(node, number)[-1]


def test_a_file_may_list_what_a_catalog_holds(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    read_file(driver, "LIST TABLES")
    assignment = driver.claim()
    assert assignment.command == "LIST TABLES"


def test_a_file_with_more_statements_than_may_wait_is_refused(start_node: StartNode) -> None:
    node = start_node(statements={"max_waiting": 2})
    number = submit(node)
    read_file(connect(node, number), "SELECT 1", "SELECT 2", "SELECT 3")
    assert state(node, number) == "dead"
    assert "setting statements.max_waiting" in log(node, number)[-1]


def test_the_statements_of_a_file_are_stored_once(node: InProcessNode) -> None:
    number = submit(node)
    read_file(connect(node, number), "SELECT 1")
    listed = node.http.get("/api/v1/statements", params={"session": number}).json()["items"]
    with node.database.read() as tx:
        assert jobs.get_outcome(tx, listed[1]["id"]) is None


def test_an_empty_file_succeeds(node: InProcessNode) -> None:
    number = submit(node)
    read_file(connect(node, number))
    assert state(node, number) == "success"


def test_a_batch_fails_if_its_driver_reports_something_else(node: InProcessNode) -> None:
    number = submit(node)
    driver = connect(node, number)
    driver.succeed(driver.claim().statement_id, NOTHING, task_outcome=TaskDone())
    assert state(node, number) == "dead"


def test_statements_are_added_by_the_file_of_a_batch_alone(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    node.submit("SELECT 1", session=session_id)
    forged = FileRead(statements=[FileStatement(text="DROP TABLE t", line=1)])
    driver.succeed(driver.claim().statement_id, task_outcome=forged)
    assert driver.poll().assignment is None


def test_no_further_statement_is_submitted_to_a_batch(node: InProcessNode) -> None:
    number = submit(node)
    body = {"statement": "SELECT 1", "session": str(number)}
    answer = node.http.post("/api/v1/statements", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "session_ended")


def test_a_batch_has_every_key_that_clients_read(node: InProcessNode) -> None:
    answer = node.http.post(BASE, json={"file": "/data/a.sql", "name": "daily"})
    number = answer.json()["id"]
    assert answer.headers["location"] == f"{BASE}/{number}"
    keys = {"id", "name", "owner", "proxyUser", "state", "appId", "appInfo", "log"}
    assert set(answer.json()) == keys
    assert (answer.json()["appId"], answer.json()["proxyUser"]) == (None, None)
    listed = call(node, "GET", params={"size": 100})
    assert listed["from"] == 0
    [batch] = [each for each in listed["sessions"] if each["id"] == number]
    assert batch == call(node, "GET", "/daily")
    sessions = node.http.get("/livy/sessions").json()["sessions"]
    assert number not in [each["id"] for each in sessions]


def test_batches_are_listed_in_ranges_also_those_that_ended(start_node: StartNode) -> None:
    node = start_node(lease={"sweep": "1h"})
    numbers = [submit(node) for _ in range(3)]
    node.session()
    call(node, "DELETE", f"/{numbers[0]}")

    def ids(**query: Any) -> list[int]:
        listed = call(node, "GET", params=query)
        assert listed["total"] == 3
        return [each["id"] for each in listed["sessions"]]

    assert ids() == numbers
    assert ids(**{"from": 1, "size": 1}) == [numbers[1]]
    assert ids(**{"from": 3}) == []


def test_fields_of_a_batch_are_configuration_of_spark(node: InProcessNode) -> None:
    # Airflow sends the numbers of its templates as texts.
    number = submit(node, driverCores="2", numExecutors=4, conf={"spark.a": 1}, className=None)
    session = node.http.get(f"/api/v1/sessions/{number}").json()
    assert session["conf"] == {
        "spark.driver.cores": "2",
        "spark.executor.instances": "4",
        "spark.a": "1",
    }
    assert session["kind"] == "batch"


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "file"),
        ({"file": ""}, 400, "The location is empty."),
        ({"file": "a.py"}, 400, "'a.py' is not absolute"),
        ({"file": "file:a.py"}, 400, "is not absolute"),
        ({"file": "/data/a.jar"}, 400, "must end in .sql or .py"),
        ({"file": "/data/sql"}, 400, "must end in .sql or .py"),
        ({"file": "/data/\0.sql"}, 400, "NUL"),
        ({"file": "s3://key:word@bucket/a.sql"}, 400, "password"),
        ({"file": "/data/${secret:x}.sql"}, 400, "secret"),
        ({"file": "/" + "a" * 5000 + ".sql"}, 400, "longer than 4096"),
        ({"file": "/a.sql", "args": ["1"]}, 400, "A SQL file has no arguments."),
        ({"file": "/a.py", "args": ["1"] * 1001}, 400, "At most 1000"),
        ({"file": "/a.py", "className": "org.Main"}, 400, "no classes of jars"),
        ({"file": "/a.py", "kind": "sql"}, 400, "Unknown field 'kind'."),
        ({"file": "/a.py", "driverCores": "two"}, 400, "driverCores"),
        ({"file": "/a.py", "numExecutors": True}, 400, "numExecutors"),
        ({"file": "/a.py", "pyFiles": ["/etc/passwd"]}, 403, "reserved for the operator"),
        ({"file": "/a.py", "conf": {"spark.jars": "/x.jar"}}, 403, "reserved for the operator"),
        ({"file": "/a.py", "proxyUser": "ada"}, 403, "may not act for 'ada'"),
    ],
)
def test_a_batch_that_cannot_run_is_refused(
    node: InProcessNode, body: Json, status: int, text: str
) -> None:
    with node.expect_no_changes():
        answer = call(node, "POST", status=status, json=body)
    assert set(answer) == {"msg"}
    assert text in answer["msg"]


def test_a_name_is_free_again_when_its_batch_has_ended(start_node: StartNode) -> None:
    node = start_node()
    first = submit(node, name="daily")
    driver = connect(node, first)
    call(node, "POST", status=409, json={"file": "/a.sql", "name": "daily"})
    read_file(driver)
    end(node, first, driver)
    assert submit(node, name="daily") != first


@pytest.mark.parametrize("path", ["", "/state", "/log"])
def test_a_session_is_no_batch(node: InProcessNode, path: str) -> None:
    session = node.http.get(f"/api/v1/sessions/{node.session()}").json()["number"]
    assert call(node, "GET", f"/{session}{path}", 404)["msg"].endswith("is not a batch.")
    assert "does not exist" in call(node, "GET", f"/999999999{path}", 404)["msg"]


@pytest.mark.parametrize("count", [0, 100, 250])
def test_the_log_is_read_in_pages_as_airflow_does(node: InProcessNode, count: int) -> None:
    number = submit(node)
    folder: Path = node.node.settings.layout.session_logs
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"line {index}" for index in range(count)]
    (folder / f"{session_of(node, number)}.log").write_text("".join(f"{each}\n" for each in lines))
    read: list[str] = []
    start, total = 0, 0
    while start <= total:
        page = call(node, "GET", f"/{number}/log", params={"from": start, "size": 100})
        total = page["total"]
        read += page["log"]
        start += 100
    assert (read, total) == (lines, count)


@pytest.mark.postgres
def test_any_node_answers_for_a_batch(postgres_url: str, tmp_path: Path) -> None:
    one, two = (make_settings(tmp_path / name, store={"url": postgres_url}) for name in "12")
    # Either node may start the driver.
    launcher = ScriptedLauncher()
    with serve_node(two, launcher) as second, ExitStack() as drivers:
        with serve_node(one, launcher) as first:
            number = submit(first, name="daily")
            request = launcher.wait_for_request(session_of(first, number))
            driver = drivers.enter_context(ScriptedDriver(request.bootstrap))
            driver.hello()
            read_file(driver, "SELECT 1", "SELECT 2")
            assert [state(node, number) for node in (first, second)] == ["running"] * 2
            batches = [call(node, "GET", "/daily") for node in (first, second)]
            assert batches[0] == batches[1]
        # The first node has gone. The driver finds the other one.
        driver.move_to(second.address)
        run_next(driver, "SELECT 1")
        run_next(driver, "SELECT 2")
        assert state(second, number) == "success"
        assert [each["id"] for each in call(second, "GET")["sessions"]] == [number]
