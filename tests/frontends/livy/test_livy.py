"""Livy's API, with the responses that its clients read."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.made_results import inline_result, stored_result
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher
from tests.support.waiting import wait_until

from headrace.control.identity.authenticator import make_token
from headrace.model.failure import Failure
from headrace.model.identity import Scope
from headrace.model.lifecycle import StatementState
from headrace.store.identity import tokens, users

Json = dict[str, Any]
BASE = "/livy"


def call(node: InProcessNode, method: str, path: str, status: int = 200, **options: Any) -> Json:
    response = node.http.request(method, f"{BASE}{path}", **options)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body: Json = response.json()
    return body


def open_session(node: InProcessNode, **body: Any) -> tuple[int, ScriptedDriver]:
    """Open a session, connect its driver, and return the number of the session and the driver."""
    session = call(node, "POST", "/sessions", 201, json={"kind": "sql", **body})
    assert session["state"] == "starting"
    session_id = node.http.get(f"/api/v1/sessions/{session['id']}").json()["id"]
    driver = node.launcher.connect_driver(session_id)
    driver.hello()
    number: int = session["id"]
    return number, driver


def run(node: InProcessNode, number: int, driver: ScriptedDriver, code: str) -> str:
    """Submit a statement, let the driver start it, and return its id."""
    statement = call(node, "POST", f"/sessions/{number}/statements", 201, json={"code": code})
    assert (statement["state"], statement["output"]) == ("waiting", None)
    statement_id = driver.claim().statement_id
    driver.report_start(statement_id)
    return statement_id


def test_the_version_is_one_that_pylivy_sorts_after_0_5(node: InProcessNode) -> None:
    assert call(node, "GET", "/version")["version"] == "0.9.0"


def test_a_session_is_starting_then_idle_then_busy(node: InProcessNode) -> None:
    number, driver = open_session(node)
    assert call(node, "GET", f"/sessions/{number}/state") == {"id": number, "state": "idle"}
    statement_id = run(node, number, driver, "SELECT 1 AS x")
    assert call(node, "GET", f"/sessions/{number}")["state"] == "busy"
    driver.succeed(statement_id, inline_result([("x", "integer")], [[1]]))
    assert call(node, "GET", f"/sessions/{number}")["state"] == "idle"


def test_a_session_has_every_key_that_clients_read(node: InProcessNode) -> None:
    number, _driver = open_session(node, name="etl")
    first = call(node, "GET", "/sessions?size=1")
    # Other tests leave sessions in the node, and the newest ones are last.
    start = max(first["total"] - 10, 0)
    listed = call(node, "GET", f"/sessions?from={start}")
    [session] = [each for each in listed["sessions"] if each["id"] == number]
    assert session == call(node, "GET", "/sessions/etl")
    keys = {"id", "name", "appId", "owner", "proxyUser", "state", "kind", "appInfo", "log"}
    assert set(session) == keys
    assert (session["kind"], session["proxyUser"], session["log"]) == ("sql", None, [])
    assert set(session["appInfo"]) == {"driverLogUrl", "sparkUiUrl", "executorLogUrls"}
    assert (first["from"], listed["from"], listed["total"] >= 1) == (0, start, True)


def test_fields_of_a_session_are_configuration_of_spark(node: InProcessNode) -> None:
    body = {
        "driverMemory": "2g",
        "executorCores": 3,
        "numExecutors": 4,
        "conf": {"spark.a": 1, "spark.b": True},
        "idleTimeout": "30m",
    }
    number = call(node, "POST", "/sessions", 201, json=body)["id"]
    session = node.http.get(f"/api/v1/sessions/{number}").json()
    assert session["conf"] == {
        "spark.driver.memory": "2g",
        "spark.executor.cores": "3",
        "spark.executor.instances": "4",
        "spark.a": "1",
        "spark.b": "true",
    }
    assert session["idle_timeout"] == "30m"


def test_a_success_has_schema_and_rows(node: InProcessNode) -> None:
    number, driver = open_session(node)
    statement_id = run(node, number, driver, "SELECT 1 AS x")
    path = f"/sessions/{number}/statements/0"
    assert call(node, "GET", path)["state"] == "running"
    driver.succeed(statement_id, inline_result([("x", "integer"), ("s", "string")], [[1, None]]))
    statement = call(node, "GET", path)
    assert (statement["id"], statement["code"], statement["state"], statement["progress"]) == (
        *(0, "SELECT 1 AS x", "available", 1.0),
    )
    assert 0 < statement["started"] <= statement["completed"]
    output = statement["output"]
    assert (output["status"], output["execution_count"]) == ("ok", 0)
    table = output["data"]["application/json"]
    assert table["data"] == [[1, None]]
    assert table["schema"]["type"] == "struct"
    assert [(f["name"], f["type"]) for f in table["schema"]["fields"]] == [
        *(("x", "integer"), ("s", "string")),
    ]
    listed = call(node, "GET", f"/sessions/{number}/statements")
    assert listed == {"total_statements": 1, "statements": [statement]}


def test_ddl_has_an_empty_schema(node: InProcessNode) -> None:
    number, driver = open_session(node)
    driver.succeed(run(node, number, driver, "CREATE TABLE t (a INT)"), inline_result([], []))
    output = call(node, "GET", f"/sessions/{number}/statements/0")["output"]
    table = output["data"]["application/json"]
    assert table == {"schema": {"type": "struct", "fields": []}, "data": []}


@pytest.mark.parametrize(
    ("failure", "evalue", "traceback"),
    [
        (
            Failure(
                code="analysis_error",
                condition="TABLE_OR_VIEW_NOT_FOUND",
                message="There is no t.",
                trace="a\n\tat b",
            ),
            "[TABLE_OR_VIEW_NOT_FOUND] There is no t.",
            ["a", "\tat b"],
        ),
        (Failure(code="driver_lost", message="Gone."), "[driver_lost] Gone.", []),
    ],
)
def test_a_failed_statement_is_available_with_an_error(
    node: InProcessNode, failure: Failure, evalue: str, traceback: list[str]
) -> None:
    number, driver = open_session(node)
    statement_id = run(node, number, driver, "SELECT * FROM t")
    assert driver.report_end(statement_id, StatementState.FAILED, failure=failure).applied
    statement = call(node, "GET", f"/sessions/{number}/statements/0")
    assert statement["state"] == "available"
    assert statement["output"] == {
        "status": "error",
        "execution_count": 0,
        "ename": failure.code,
        "evalue": evalue,
        "traceback": traceback,
    }


def test_a_result_above_the_limit_is_an_error_and_never_cut(start_node: StartNode) -> None:
    node = start_node(livy={"row_limit": 2})
    number, driver = open_session(node)
    for rows in ([[1], [2]], [[1], [2], [3]]):
        driver.succeed(
            run(node, number, driver, "SELECT 1"), inline_result([("x", "integer")], rows)
        )
    first, second = call(node, "GET", f"/sessions/{number}/statements")["statements"]
    assert first["output"]["data"]["application/json"]["data"] == [[1], [2]]
    assert (second["state"], second["output"]["status"]) == ("available", "error")
    assert second["output"]["evalue"].startswith("[too_many_rows] The result has 3 rows")


def test_a_result_that_is_not_valid_is_an_error_in_the_output(node: InProcessNode) -> None:
    number, driver = open_session(node)
    call(node, "POST", f"/sessions/{number}/statements", 201, json={"code": "SELECT 1 AS x"})
    assignment = driver.claim()
    assert assignment.result_location is not None
    location = Path(assignment.result_location)
    driver.succeed(
        assignment.statement_id,
        stored_result(location, [("x", "integer")], [[[1]]], chunk_limit=1000),
    )
    for file in location.rglob("*"):
        if file.is_file():
            file.write_bytes(b"x" * file.stat().st_size)
    # A client that polls would ask for ever if this were an error of the server.
    statement = call(node, "GET", f"/sessions/{number}/statements/0")
    assert (statement["state"], statement["output"]["status"]) == ("available", "error")
    assert statement["output"]["ename"] == "invalid_result"


def test_a_cancel_is_accepted_before_and_after_the_end(node: InProcessNode) -> None:
    number, _driver = open_session(node)
    call(node, "POST", f"/sessions/{number}/statements", 201, json={"code": "SELECT 1"})
    for _ in range(2):
        answer = call(node, "POST", f"/sessions/{number}/statements/0/cancel")
        assert answer == {"msg": "canceled"}
    statement = call(node, "GET", f"/sessions/{number}/statements/0")
    assert (statement["state"], statement["output"]) == ("cancelled", None)


def test_statements_are_listed_in_ranges(node: InProcessNode) -> None:
    number, _driver = open_session(node)
    for index in range(3):
        call(node, "POST", f"/sessions/{number}/statements", 201, json={"code": f"SELECT {index}"})

    def ids(**query: Any) -> list[int]:
        listed = call(node, "GET", f"/sessions/{number}/statements", params=query)
        assert listed["total_statements"] == 3
        return [each["id"] for each in listed["statements"]]

    assert ids() == [0, 1, 2]
    assert ids(**{"from": 1, "size": 1}) == [1]
    assert ids(order="desc", size=2) == [2, 1]
    assert ids(**{"from": 3}) == []


def test_a_session_is_deleted_twice(node: InProcessNode) -> None:
    number = call(node, "POST", "/sessions", 201, json={})["id"]
    for _ in range(2):
        assert call(node, "DELETE", f"/sessions/{number}") == {"msg": "deleted"}
    assert call(node, "GET", f"/sessions/{number}/state")["state"] == "dead"


@pytest.mark.parametrize("kind", ["spark", "pyspark", "sparkr", "shared"])
def test_other_kinds_are_refused(node: InProcessNode, kind: str) -> None:
    number, _driver = open_session(node)
    with node.expect_no_changes():
        for path in ("/sessions", f"/sessions/{number}/statements"):
            answer = call(node, "POST", path, 400, json={"kind": kind, "code": "1"})
            assert set(answer) == {"msg"}
        answer = call(node, "POST", "/sessions", 400, json={"kind": kind})
    assert f"The kind '{kind}' is not served" in answer["msg"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("GET", "/sessions/999999999", None, 404, "Session '999999999' does not exist."),
        ("GET", "/sessions/999999999/statements/0", None, 404, "Session '999999999'"),
        ("GET", "/nothing", None, 404, ""),
        ("PUT", "/sessions", {}, 405, ""),
        ("POST", "/sessions", {"proxyUser": "ada"}, 403, "may not act for 'ada'"),
        ("POST", "/sessions", {"cores": 1}, 400, "Unknown field 'cores'."),
        ("POST", "/sessions", {"conf": {"a": "1"}}, 400, "Unknown setting 'a'"),
    ],
)
def test_an_error_is_a_message(
    node: InProcessNode, method: str, path: str, body: Json | None, status: int, text: str
) -> None:
    answer = call(node, method, path, status, json=body)
    assert set(answer) == {"msg"}
    assert text in answer["msg"]


@pytest.mark.parametrize("count", [0, 100, 250])
def test_the_log_is_read_in_pages(node: InProcessNode, count: int) -> None:
    number, _driver = open_session(node)
    session_id = node.http.get(f"/api/v1/sessions/{number}").json()["id"]
    layout: Path = node.node.settings.layout.session_logs
    layout.mkdir(parents=True, exist_ok=True)
    lines = [f"line {index}" for index in range(count)]
    (layout / f"{session_id}.log").write_text("".join(f"{line}\n" for line in lines))
    read: list[str] = []
    start, total = 0, 0
    while start <= total:
        query = {"from": start, "size": 100}
        page = call(node, "GET", f"/sessions/{number}/log", params=query)
        total = page["total"]
        read += page["log"]
        start += 100
    assert (read, total) == (lines, count)
    assert call(node, "GET", f"/sessions/{number}/log")["log"] == lines[-100:]


def test_a_lost_driver_is_recovering_and_statements_wait(node: InProcessNode) -> None:
    number, driver = open_session(node)
    driver.succeed(run(node, number, driver, "SELECT 1"))
    session_id = node.http.get(f"/api/v1/sessions/{number}").json()["id"]
    node.launcher.report_exit(session_id, "it was killed")
    path = f"/sessions/{number}"
    wait_until(lambda: call(node, "GET", f"{path}/state")["state"] == "recovering")
    body = {"code": "SELECT 2"}
    statement = call(node, "POST", f"{path}/statements", 201, json=body)
    assert (statement["id"], statement["state"]) == (1, "waiting")
    again = node.launcher.connect_driver(session_id, launch=2)
    again.hello()
    again.succeed(again.claim().statement_id)
    assert call(node, "GET", f"{path}/state")["state"] == "idle"
    first, second = call(node, "GET", f"{path}/statements")["statements"]
    assert (first["code"], second["state"]) == ("SELECT 1", "available")


@pytest.mark.postgres
def test_another_node_has_the_same_ids_and_outputs(postgres_url: str, tmp_path: Path) -> None:
    one, two = (make_settings(tmp_path / name, store={"url": postgres_url}) for name in "12")
    launcher = ScriptedLauncher()
    with serve_node(two, launcher) as second, ExitStack() as drivers:
        with serve_node(one, launcher) as first:
            number = call(first, "POST", "/sessions", 201, json={"name": "etl"})["id"]
            path = f"/sessions/{number}"
            session_id = first.http.get(f"/api/v1/sessions/{number}").json()["id"]
            request = launcher.wait_for_request(session_id)
            driver = drivers.enter_context(ScriptedDriver(request.bootstrap))
            driver.hello()
            driver.succeed(run(first, number, driver, "SELECT 1 AS x"))
            running = run(second, number, driver, "SELECT 2 AS x")
            for each in ("/sessions", path, f"{path}/statements", f"{path}/statements/1"):
                assert call(first, "GET", each) == call(second, "GET", each)
            before = call(first, "GET", f"{path}/statements/0")
        # The first node has gone.
        assert call(second, "GET", f"{path}/statements/0") == before
        driver.move_to(second.address)
        driver.succeed(running)
        listed = call(second, "GET", f"{path}/statements")["statements"]
        assert [each["id"] for each in listed] == [0, 1]
        assert listed[0] == before
        assert listed[1]["output"]["data"]["application/json"]["data"] == [[1]]


@pytest.mark.parametrize(
    ("path", "body"), [("/sessions", {}), ("/batches", {"file": "/data/a.sql"})]
)
@pytest.mark.parametrize(
    ("groups", "proxy_user", "owner"),
    [
        (["people"], None, "itself"),
        (["people", "etl"], "group:etl", "group:corp:etl"),
        (["people", "etl"], "group:corp:etl", "group:corp:etl"),
        (["people"], "group:etl", None),
        (["people"], "somebody", None),
        # A driver acts for the owner of its session: no administrator runs SQL for others.
        (["admins"], "somebody", None),
    ],
)
def test_a_proxy_user_is_a_group_of_the_caller(
    start_node: StartNode,
    path: str,
    body: Json,
    groups: list[str],
    proxy_user: str | None,
    owner: str | None,
) -> None:
    roles = {"admin": ["corp:admins"], "user": ["corp:people"]}
    node = start_node(token="of-the-node", auth={"roles": roles}, lease={"sweep": "1h"})
    new = make_token()
    with node.database.write("test") as tx:
        users.sign_in(tx, "corp", "1", name="somebody", groups=["people"])
        user = users.sign_in(tx, "corp", "2", name="ada", groups=groups)
        token = tokens.insert_token(
            tx,
            new.secret_hash,
            owner=user.id,
            name="t",
            scope=Scope.ADMIN,
            seconds=86_400,
            created_by=user.id,
        )
    headers = {"Authorization": f"Bearer {new.text(token.id)}"}
    status = 403 if owner is None else 201
    proxied = body if proxy_user is None else {**body, "proxyUser": proxy_user}
    answer = call(node, "POST", path, status, json=proxied, headers=headers)
    if owner is None:
        assert f"may not act for '{proxy_user}'" in answer["msg"]
    else:
        is_group = owner.startswith("group:")
        assert answer["owner"] == (owner if is_group else user.id)
        assert answer["proxyUser"] == (owner if is_group else None)


def test_a_call_needs_credentials(start_node: StartNode) -> None:
    node = start_node(token="of-the-node")
    answer: httpx.Response = node.http.get(f"{BASE}/sessions")
    assert (answer.status_code, set(answer.json())) == (401, {"msg"})
