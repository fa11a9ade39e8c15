"""Statements: submit, read and list."""

from __future__ import annotations

import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.store import new_session, new_statement

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.result import Disposition, ResultRequest

TIMES = ["created_at", "launched_at", "started_at", "ended_at"]


def test_a_statement_keeps_the_time_of_every_step(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    response = node.http.post(
        "/api/v1/statements", json={"statement": "SELECT 1 AS x", "session": session_id}
    )
    assert response.status_code == 201
    submitted = response.json()
    assert response.headers["location"] == f"/api/v1/statements/{submitted['id']}"
    assert submitted["statement"] == "SELECT 1 AS x"
    assert submitted["state"] == "waiting"
    assert (submitted["ordinal"], submitted["attempts"]) == (0, 0)
    assert [submitted[time] is None for time in TIMES] == [False, True, True, True]

    driver.claim()
    launched = node.statement(submitted["id"])
    assert (launched["state"], launched["attempts"]) == ("launched", 1)
    assert driver.report_start(submitted["id"]).applied
    assert node.statement(submitted["id"])["state"] == "running"
    assert driver.succeed(submitted["id"]).applied

    ended = node.statement(submitted["id"])
    assert ended["state"] == "success"
    times = [ended[time] for time in TIMES]
    assert times == sorted(times)
    assert ended["error"] is None
    assert ended["result"]["schema"] == [{"name": "x", "type": "int"}]
    assert (ended["result"]["row_count"], ended["result"]["chunks"]) == (1, 1)
    assert ended["result"]["disposition"] == "inline"
    assert ended["result"]["truncated"] is False
    assert ended["result"]["expires_at"] > ended["ended_at"]


def test_queries_of_a_session_run_at_once_by_default(start_node: StartNode) -> None:
    node = start_node(sessions={"parallelism": 2})
    session_id, driver = node.start_session()
    ids = [node.submit(f"SELECT {n}", session=session_id)["id"] for n in range(3)]
    assert driver.claim().statement_id == ids[0]
    second = driver.poll(in_flight=ids[:1]).assignment
    assert second is not None
    assert second.statement_id == ids[1]
    assert driver.poll(in_flight=ids[:2]).assignment is None
    assert node.statement(ids[2])["waiting_for"]["code"] == "parallelism"


def test_statements_of_a_session_can_run_in_order_one_at_a_time(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=1)
    statement_ids = [node.submit(f"SELECT {n}", session=session_id)["id"] for n in range(3)]
    for statement_id in statement_ids:
        assignment = driver.claim()
        assert assignment.statement_id == statement_id
        assert driver.poll(in_flight=[statement_id]).assignment is None
        driver.succeed(statement_id)
    assert driver.poll().assignment is None


def test_the_driver_receives_all_fields_of_a_submit(start_node: StartNode) -> None:
    node = start_node(results={"allowed": ["s3://bucket/folder"]})
    session_id, driver = node.start_session()
    parameters = [
        {"name": "a", "value": 1},
        {"name": "b", "value": "1.50", "type": "DECIMAL(10,2)"},
        {"name": "c", "value": None},
        {"name": "d", "value": [["ä\u2028"], [None]]},
    ]
    node.submit(
        "SELECT :a, :b, :c, :d",
        session=session_id,
        parameters=parameters,
        conf={"spark.sql.ansi.enabled": "false"},
        row_limit=10,
        byte_limit=2000,
        result="stored",
        result_location="s3://bucket/folder",
    )
    assignment = driver.claim()
    assert assignment.text == "SELECT :a, :b, :c, :d"
    assert [parameter.model_dump(exclude_unset=True) for parameter in assignment.parameters] == [
        {"type": None, **parameter} for parameter in parameters
    ]
    assert assignment.conf == {"spark.sql.ansi.enabled": "false"}
    assert assignment.result_request == ResultRequest(
        disposition=Disposition.STORED,
        row_limit=10,
        byte_limit=2000,
        location="s3://bucket/folder",
    )
    assert assignment.attempt == 1


def test_positional_parameters_keep_their_order(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    node.submit("SELECT ?, ?", session=session_id, parameters=[{"value": 2}, {"value": 1}])
    parameters = driver.claim().parameters
    assert [(parameter.name, parameter.value) for parameter in parameters] == [(None, 2), (None, 1)]


def test_the_driver_receives_the_text_unchanged(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    text = "  SELECT 'a;b', \"c\", `d`, '\U0001f40b\u0085' -- end \\\n ;; /* ; */ "
    submitted = node.submit(text, session=session_id)
    assert submitted["statement"] == text
    assert driver.claim().text == text


def test_a_failed_statement_has_the_error_with_its_position_and_the_trace_on_request(
    node: InProcessNode,
) -> None:
    session_id, driver = node.start_session()
    statement_id = node.submit("SELEC 1", session=session_id)["id"]
    failure = Failure(
        code="parse_error",
        message="Syntax error",
        condition="PARSE_SYNTAX_ERROR",
        sqlstate="42601",
        line=1,
        column=1,
        trace="at org.apache…",
    )
    driver.claim()
    assert driver.report_end(statement_id, StatementState.FAILED, failure=failure).applied

    statement = node.statement(statement_id)
    assert statement["state"] == "failed"
    assert statement["error"] == {**failure.model_dump(), "trace": None}
    assert statement["result"] is None
    assert node.statement(statement_id, trace="true")["error"] == failure.model_dump()


def test_statements_are_listed_in_pages_newest_first(node: InProcessNode) -> None:
    session_id = node.session()
    statement_ids = [node.submit(f"SELECT {n}", session=session_id)["id"] for n in range(5)]
    listed_ids, before = [], None
    while True:
        query = {"session": session_id, "limit": 2, **({"before": before} if before else {})}
        page = node.http.get("/api/v1/statements", params=query).json()
        listed_ids += [statement["id"] for statement in page["items"]]
        before = page["next"]
        if before is None:
            break
    assert listed_ids == statement_ids[::-1]


def test_a_page_can_have_a_limit_of_one_thousand(node: InProcessNode) -> None:
    session_id = node.session()
    for _ in range(3):
        node.submit(session=session_id)
    page = node.http.get("/api/v1/statements", params={"session": session_id, "limit": 1000}).json()
    assert (len(page["items"]), page["next"]) == (3, None)


def test_statements_are_listed_by_state(node: InProcessNode) -> None:
    session_id, driver = node.start_session(name="by-state")
    succeeded, running, waiting = [node.submit(session=session_id)["id"] for _ in range(3)]
    driver.claim()
    driver.succeed(succeeded)
    driver.claim()
    driver.report_start(running)
    for states, expected in (
        (["success"], [succeeded]),
        (["running"], [running]),
        (["waiting", "running"], [waiting, running]),
        (["success", "waiting"], [waiting, succeeded]),
        (["cancelled", "timeout"], []),
    ):
        query = {"session": "by-state", "state": states}
        page = node.http.get("/api/v1/statements", params=query).json()
        assert [statement["id"] for statement in page["items"]] == expected


@pytest.mark.parametrize(
    "path", ["/statements/{0}", "/statements/{0}/result", "/statements/{0}/cancel"]
)
@pytest.mark.parametrize("name", ["st_" + "0" * 32, "nonsense", "st_%00", "\u00e4"])
def test_an_unknown_statement_gets_404(node: InProcessNode, path: str, name: str) -> None:
    with node.expect_no_changes():
        method = "POST" if path.endswith("cancel") else "GET"
        response = node.http.request(method, f"/api/v1{path.format(name)}")
        assert (response.status_code, response.json()["code"]) == (404, "statement_not_found")


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "x"},
        {"before": "nonsense"},
        {"state": "done"},
    ],
)
def test_an_invalid_query_of_a_list_is_refused_by_name(
    node: InProcessNode, query: dict[str, str]
) -> None:
    for path in ("statements", "sessions"):
        response = node.http.get(f"/api/v1/{path}", params=query)
        assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
        assert next(iter(query)) in response.json()["detail"]


@pytest.mark.finding("S8")
def test_lists_of_statements_and_events_hold_only_the_beginning_of_a_long_message(
    node: InProcessNode,
) -> None:
    session_id, driver = node.start_session()
    failure = Failure(code="execution_error", message="m" * 100_000, trace="t" * 100_000)
    for _ in range(13):
        statement_id = node.submit(session=session_id)["id"]
        driver.claim()
        driver.report_end(statement_id, StatementState.FAILED, failure=failure)
    assert len(node.statement(statement_id)["error"]["message"]) == 65_536
    path = f"/api/v1/statements?session={session_id}"
    page = node.http.get(path)
    messages = [statement["error"]["message"] for statement in page.json()["items"]]
    assert len(messages) == 13
    assert all(message.endswith("m… [cut]") for message in messages)
    assert len(page.content) < 13 * 4096
    events = node.http.get(f"/api/v1/events?entity_id={statement_id}")
    assert "m… [cut]" in events.text
    assert len(events.content) < 4 * 4096


def test_statements_are_listed_by_a_prefix_of_their_ids(start_node: StartNode) -> None:
    node = start_node()
    session_id = node.session(name="etl")
    mine = [node.submit(session=session_id)["id"] for _ in range(2)]
    foreign = new_statement(node.database, new_session(node.database, owner="bob"), owner="bob")

    def ids(path: str, prefix: str) -> list[str]:
        page = node.http.get(f"/api/v1/{path}", params={"id_prefix": prefix}).json()
        return [item["id"] for item in page["items"]]

    assert ids("statements", "st_0") == mine[::-1]
    assert ids("statements", mine[0]) == [mine[0]]
    assert ids("statements", foreign) == []
    assert ids("sessions", session_id[:-1]) == [session_id]
    listed = node.http.get("/api/v1/statements").json()["items"]
    assert {item["session_name"] for item in listed} == {"etl"}


@pytest.mark.parametrize("path", ["statements", "sessions"])
@pytest.mark.parametrize("prefix", ["", "st", "019f", "st_xyz", "st_%", "st_" + "0" * 33, "ST_0"])
def test_a_text_that_begins_no_id_is_refused(node: InProcessNode, path: str, prefix: str) -> None:
    response = node.http.get(f"/api/v1/{path}", params={"id_prefix": prefix})
    assert response.status_code == 400
    assert "id_prefix" in response.json()["detail"]


def test_a_list_says_what_waits_longest_and_for_what(node: InProcessNode) -> None:
    session_id, driver = node.start_session(parallelism=2)
    first, second, third = (
        node.submit(f"CREATE TABLE t{n} (x INT)", session=session_id)["id"] for n in range(3)
    )
    driver.claim()
    waiting = node.http.get("/api/v1/statements", params={"view": "waiting", "session": session_id})
    own = waiting.json()["items"]
    assert [item["id"] for item in own] == [second, third]
    for item in own:
        assert item["waiting_since"] >= item["created_at"]
        assert item["waiting_for"] == node.statement(item["id"])["waiting_for"]
    assert [item["queue_position"] for item in own] == [1, 2]
    assert own[0]["waiting_for"]["statement_id"] == first
    running = node.http.get("/api/v1/statements", params={"view": "running", "session": session_id})
    [item] = running.json()["items"]
    assert (item["id"], item["state"], item["waiting_for"]) == (first, "launched", None)
    for view in ("running", "waiting", "slow"):
        query = {"view": view, "over": "1h", "session": session_id}
        assert node.http.get("/api/v1/statements", params=query).json()["items"] == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"over": "1min"}, "needs a view"),
        ({"view": "slow", "over": "0s"}, "too short"),
        ({"view": "slow", "over": "-1min"}, "not a duration"),
        ({"view": "slow", "over": "soon"}, "not a duration"),
        ({"view": "quick"}, "'waiting', 'running' or 'slow'"),
    ],
)
def test_a_list_with_a_wrong_view_or_time_is_refused(
    node: InProcessNode, query: dict[str, str], message: str
) -> None:
    response = node.http.get("/api/v1/statements", params=query)
    assert response.status_code in {400, 422}
    assert message in response.json()["detail"]
