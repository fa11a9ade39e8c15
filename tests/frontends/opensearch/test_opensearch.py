"""The async query API of OpenSearch, with the exact responses that its clients expect."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result, stored_result
from tests.support.scripted_driver import ScriptedDriver

from headrace.frontends.http.body_limit import BODY_LIMIT
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.result import ResultReport
from headrace.model.statement import CancelReason
from headrace.store.statements import results
from headrace.store.statements.statement_transitions import request_cancel

Json = dict[str, Any]

BASE = "/_plugins/_async_query"


def post(node: InProcessNode, query: str = "SELECT 1 AS x", **body: Any) -> httpx.Response:
    fields = {"datasource": "my_glue", "lang": "sql", "query": query, **body}
    return node.http.post(BASE, json=fields)


def submit_query(node: InProcessNode, **body: Any) -> tuple[str, str]:
    """Submit a query and return its id and the id of its session."""
    response = post(node, **body)
    assert response.status_code == 201, response.text
    answer = response.json()
    assert set(answer) == {"queryId", "sessionId"}
    return answer["queryId"], answer["sessionId"]


def submit_and_claim_query(node: InProcessNode) -> tuple[str, ScriptedDriver]:
    """Submit a query, let a driver claim it, and return its id and the driver."""
    query_id, session_id = submit_query(node)
    driver = node.launcher.connect_driver(session_id)
    driver.hello()
    assert driver.claim().statement_id == query_id
    return query_id, driver


def complete_query(node: InProcessNode, result: ResultReport) -> str:
    query_id, driver = submit_and_claim_query(node)
    assert driver.succeed(query_id, result).applied
    return query_id


def complete_stored_query(node: InProcessNode, parts: list[Any], **changes: Any) -> str:
    """Let a query succeed with a stored result, whose report has the given changes."""
    query_id, driver = submit_and_claim_query(node)
    folder = Path(str(driver.claim().result_location))
    report = stored_result(folder, [("n", "integer")], parts, chunk_limit=1)
    assert driver.succeed(query_id, report.model_copy(update=changes)).applied
    return query_id


def read_query(node: InProcessNode, query_id: str) -> Json:
    response = node.http.get(f"{BASE}/{query_id}")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    answer: Json = response.json()
    return answer


def expect_error(response: httpx.Response, status: int, kind: str) -> str:
    """Check an error in the format of OpenSearch, and return its details."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert set(answer) == {"status", "error"}
    assert set(answer["error"]) == {"type", "reason", "details"}
    backend = "There was internal problem at backend"
    assert answer["error"]["reason"] == (backend if status >= 500 else "Invalid Request")
    assert (answer["status"], answer["error"]["type"]) == (status, kind)
    details: str = answer["error"]["details"]
    return details


def test_a_query_is_waiting_then_running_then_returns_its_rows(node: InProcessNode) -> None:
    query_id, session_id = submit_query(node)
    assert read_query(node, query_id) == {"status": "waiting"}
    driver = node.launcher.connect_driver(session_id)
    driver.hello()
    driver.claim()
    assert read_query(node, query_id) == {"status": "waiting"}
    driver.report_start(query_id)
    assert read_query(node, query_id) == {"status": "running"}
    driver.succeed(query_id, inline_result([("c", "string")], [["x"]]))
    response = node.http.get(f"{BASE}/{query_id}")
    assert response.text == (
        '{"status":"SUCCESS","schema":[{"name":"c","type":"string"}],'
        '"datarows":[["x"]],"total":1,"size":1}'
    )


def test_a_query_is_a_statement_like_any_other(node: InProcessNode) -> None:
    query_id, session_id = submit_query(node)
    statement = node.statement(query_id)
    assert (statement["session_id"], statement["statement"]) == (session_id, "SELECT 1 AS x")


def test_values_are_json_numbers_and_types_have_spark_names(node: InProcessNode) -> None:
    columns = [
        ("a", "byte"),
        ("b", "short"),
        ("c", "integer"),
        ("d", "long"),
        ("e", "decimal(10,2)"),
        ("f", "double"),
        ("g", "boolean"),
        ("h", "varchar(5)"),
        ("i", "date"),
        ("j", "binary"),
    ]
    row = [1, 2, 3, 2**60 + 1, Decimal("5.25"), 0.5, True, "ü", None, b"\x00"]
    answer = read_query(node, complete_query(node, inline_result(columns, [row])))
    assert [column["type"] for column in answer["schema"]] == [
        *("byte", "short", "integer", "long", "decimal(10,2)"),
        *("double", "boolean", "string", "date", "binary"),
    ]
    assert answer["datarows"] == [[1, 2, 3, 2**60 + 1, 5.25, 0.5, True, "ü", None, "AA=="]]


def test_the_rows_of_all_chunks_are_in_one_response(node: InProcessNode) -> None:
    parts = [[[n], [n + 1]] for n in range(0, 10, 2)]
    query_id = complete_stored_query(node, parts)
    answer = read_query(node, query_id)
    assert answer["datarows"] == [[n] for n in range(10)]
    assert (answer["total"], answer["size"]) == (10, 10)


def test_nested_values_become_nested_json(node: InProcessNode) -> None:
    array = {"type": "array", "elementType": "long", "containsNull": True}
    field = {"name": "a", "type": array, "nullable": True, "metadata": {}}
    struct = {"type": "struct", "fields": [field]}
    report = inline_result([("s", struct), ("l", array)], [[{"_0": [1, None]}, [2**60]]])
    answer = read_query(node, complete_query(node, report))
    assert [column["type"] for column in answer["schema"]] == ["struct", "array"]
    assert answer["datarows"] == [[{"a": [1, None]}, [2**60]]]


def test_a_result_without_columns_and_rows_is_empty(node: InProcessNode) -> None:
    answer = read_query(node, complete_query(node, inline_result([], [])))
    assert answer == {"status": "SUCCESS", "schema": [], "datarows": [], "total": 0, "size": 0}


@pytest.mark.finding("S3")
def test_more_rows_than_the_limit_are_an_error_and_never_cut_off(start_node: StartNode) -> None:
    node = start_node(opensearch={"row_limit": 2})
    two = complete_query(node, inline_result([("n", "integer")], [[1], [2]]))
    assert read_query(node, two)["total"] == 2
    three = complete_query(node, inline_result([("n", "integer")], [[1], [2], [3]]))
    details = expect_error(node.http.get(f"{BASE}/{three}"), 400, "TooManyRows")
    address = f"/api/v1/statements/{three}/result"
    for expected in ("3 rows", "at most 2", "opensearch.row_limit", address):
        assert expected in details
    rest = node.http.get(address)
    assert rest.json()["rows"] == [[1], [2], [3]]
    # The driver reports another number of rows than it has written.
    forged = complete_stored_query(node, [[[1]], [[2], [3]]], row_count=1)
    details = expect_error(node.http.get(f"{BASE}/{forged}"), 400, "TooManyRows")
    assert "3 rows" in details


def test_a_failed_query_returns_its_error(node: InProcessNode) -> None:
    query_id, driver = submit_and_claim_query(node)
    failure = Failure(code="spark_error", message="[TABLE_OR_VIEW_NOT_FOUND] no t")
    driver.report_end(query_id, StatementState.FAILED, failure=failure)
    assert read_query(node, query_id) == {
        "status": "FAILED",
        "error": "[TABLE_OR_VIEW_NOT_FOUND] no t",
    }


def test_a_query_that_timed_out_returns_its_error(node: InProcessNode) -> None:
    query_id, driver = submit_and_claim_query(node)
    with node.database.write("test") as tx:
        request_cancel(tx, query_id, actor="test", reason=CancelReason.TIMEOUT)
    driver.report_end(query_id, StatementState.CANCELLED)
    answer = read_query(node, query_id)
    assert answer["status"] == "timeout"
    assert "longer than its timeout" in answer["error"]


def test_a_query_is_running_until_its_cancel_has_completed(node: InProcessNode) -> None:
    query_id, driver = submit_and_claim_query(node)
    response = node.http.delete(f"{BASE}/{query_id}")
    assert (response.status_code, response.content) == (204, b"")
    assert read_query(node, query_id) == {"status": "running"}
    assert node.http.delete(f"{BASE}/{query_id}").status_code == 204
    driver.report_end(query_id, StatementState.CANCELLED)
    assert read_query(node, query_id) == {"status": "cancelled"}


def test_a_waiting_query_is_cancelled_at_once(node: InProcessNode) -> None:
    query_id, _session_id = submit_query(node)
    assert node.http.delete(f"{BASE}/{query_id}").status_code == 204
    assert read_query(node, query_id) == {"status": "cancelled"}


@pytest.mark.parametrize("end", ["success", "failed", "cancelled"])
def test_an_ended_query_cannot_be_cancelled(node: InProcessNode, end: str) -> None:
    query_id, driver = submit_and_claim_query(node)
    if end == "cancelled":
        node.http.delete(f"{BASE}/{query_id}")
        driver.report_end(query_id, StatementState.CANCELLED)
    elif end == "failed":
        driver.report_end(query_id, StatementState.FAILED, failure=Failure(code="x", message="no"))
    else:
        driver.succeed(query_id)
    before = read_query(node, query_id)
    details = expect_error(node.http.delete(f"{BASE}/{query_id}"), 400, "IllegalStateException")
    assert end in details
    assert read_query(node, query_id) == before


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("query_id", ["st_" + "0" * 32, "nonsense", "ä"])
def test_an_unknown_query_gets_400(node: InProcessNode, method: str, query_id: str) -> None:
    with node.expect_no_changes():
        response = node.http.request(method, f"{BASE}/{query_id}")
    assert query_id in expect_error(response, 400, "AsyncQueryNotFoundException")


def test_a_query_can_use_the_session_of_an_earlier_query(node: InProcessNode) -> None:
    first, session_id = submit_query(node)
    second, second_session = submit_query(node, sessionId=session_id)
    assert first != second
    assert second_session == session_id


def test_an_ended_session_is_replaced_without_an_error(node: InProcessNode) -> None:
    session_id, driver = node.start_session()
    node.fail_session(session_id, driver)
    _query_id, other = submit_query(node, sessionId=session_id)
    assert other != session_id
    assert node.http.get(f"/api/v1/sessions/{other}").json()["state"] in {"not_started", "starting"}


def test_a_closing_session_is_replaced_without_an_error(node: InProcessNode) -> None:
    session_id, _driver = node.start_session()
    node.http.delete(f"/api/v1/sessions/{session_id}")
    _query_id, other = submit_query(node, sessionId=session_id)
    assert other != session_id


@pytest.mark.parametrize("session_id", ["se_" + "0" * 32, "stale", "", None])
def test_an_unknown_session_is_replaced_without_an_error(
    node: InProcessNode, session_id: str | None
) -> None:
    _query_id, new_session = submit_query(node, sessionId=session_id)
    assert new_session.startswith("se_")
    assert new_session != session_id


@pytest.mark.parametrize("datasource", ["spark_catalog", "my_glue"])
def test_a_datasource_that_is_not_a_catalog_selects_the_default_catalog(
    node: InProcessNode, datasource: str
) -> None:
    _query_id, session_id = submit_query(node, datasource=datasource)
    assert node.launcher.wait_for_request(session_id).bootstrap.catalog is None


def test_a_datasource_that_is_a_catalog_becomes_the_current_catalog(start_node: StartNode) -> None:
    conf = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
    node = start_node(profiles={"default": {"conf": conf}})
    _first, session_id = submit_query(node, datasource="lake")
    assert node.launcher.wait_for_request(session_id).bootstrap.catalog == "lake"
    _second, same_session = submit_query(node, datasource="lake", sessionId=session_id)
    assert same_session == session_id
    _third, other = submit_query(node, datasource="my_glue", sessionId=session_id)
    assert other != session_id


def test_datasources_can_be_mapped_to_catalogs_in_the_settings(start_node: StartNode) -> None:
    node = start_node(opensearch={"datasources": {"my_glue": "lake", "plain": "spark_catalog"}})
    for datasource, catalog in (("my_glue", "lake"), ("plain", None), ("spark_catalog", None)):
        _query_id, session_id = submit_query(node, datasource=datasource)
        assert node.launcher.wait_for_request(session_id).bootstrap.catalog == catalog
    with node.expect_no_changes():
        response = post(node, datasource="other")
    details = expect_error(response, 400, "DataSourceNotFoundException")
    assert "'other'" in details
    assert "my_glue, plain, spark_catalog" in details


@pytest.mark.parametrize("lang", ["sql", "SQL", "Sql"])
def test_the_language_sql_is_accepted_in_any_case(node: InProcessNode, lang: str) -> None:
    submit_query(node, lang=lang)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"lang": "ppl"}, "lang"),
        ({"lang": "sqll"}, "lang"),
        ({"lang": "sql\n"}, "lang"),
        ({"lang": None}, "lang"),
        ({"datasource": ""}, "datasource"),
        ({"datasource": 1}, "datasource"),
        ({"query": None}, "query"),
        ({"sessionId": 1}, "sessionId"),
        ({"session_id": "x"}, "Unknown field 'session_id'"),
        ({"parameters": []}, "Unknown field 'parameters'"),
    ],
)
def test_an_invalid_or_unknown_field_is_refused_by_name(
    node: InProcessNode, changes: Json, expected: str
) -> None:
    with node.expect_no_changes():
        response = post(node, **changes)
    assert expected in expect_error(response, 400, "IllegalArgumentException")


@pytest.mark.parametrize("missing", ["datasource", "lang", "query"])
def test_a_missing_field_is_refused_by_name(node: InProcessNode, missing: str) -> None:
    body = {"datasource": "d", "lang": "sql", "query": "SELECT 1"}
    del body[missing]
    with node.expect_no_changes():
        response = node.http.post(BASE, json=body)
    assert missing in expect_error(response, 400, "IllegalArgumentException")


@pytest.mark.parametrize(
    ("query", "status", "kind"),
    [
        (" -- nothing", 400, "EmptyStatement"),
        ("SELECT '\0'", 400, "InvalidText"),
        ("SELECT 1; SELECT 2", 400, "MultipleStatements"),
        ("SHOW STREAM", 400, "InvalidStatement"),
        ("SELECT '" + "a" * 10 * 2**20 + "'", 413, "StatementTooLarge"),
    ],
)
def test_a_query_that_cannot_run_is_refused(
    node: InProcessNode, query: str, status: int, kind: str
) -> None:
    with node.expect_no_changes():
        expect_error(post(node, query), status, kind)


@pytest.mark.parametrize(
    ("content", "headers", "status", "kind"),
    [
        (b"{", {"Content-Type": "application/json"}, 400, "IllegalArgumentException"),
        (b"\xff", {"Content-Type": "application/json"}, 400, "IllegalArgumentException"),
        (b" " * (BODY_LIMIT + 1), {}, 413, "BodyTooLarge"),
    ],
)
def test_an_invalid_body_is_refused(
    node: InProcessNode, content: bytes, headers: dict[str, str], status: int, kind: str
) -> None:
    with node.expect_no_changes():
        response = node.http.post(BASE, content=content, headers=headers)
    expect_error(response, status, kind)


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", BASE, 405, "Incorrect HTTP method for uri [{}] and method [GET], allowed: [POST]"),
        (
            "PUT",
            f"{BASE}/x",
            405,
            "Incorrect HTTP method for uri [{}] and method [PUT], allowed: [DELETE, GET]",
        ),
        ("GET", f"{BASE}/a/b", 400, "no handler found for uri [{}] and method [GET]"),
    ],
)
def test_a_request_without_a_handler_gets_the_answer_of_an_opensearch_server(
    node: InProcessNode, method: str, path: str, status: int, text: str
) -> None:
    response = node.http.request(method, path)
    assert response.status_code == status
    assert response.json() == {"error": text.format(path), "status": status}


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("text/plain", "Content-Type header [text/plain] is not supported"),
        (None, "Content-Type header is missing"),
    ],
)
def test_a_body_of_another_media_type_gets_the_answer_of_an_opensearch_server(
    node: InProcessNode, content_type: str | None, text: str
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    response = node.http.post(BASE, content=b"{}", headers=headers)
    assert response.status_code == 406
    assert response.json() == {"error": text, "status": 406}


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/x-ndjson", "application/x-ndjson; charset=UTF-8"],
)
def test_clients_may_send_json_in_each_media_type_that_opensearch_takes(
    node: InProcessNode, content_type: str
) -> None:
    body = json.dumps({"datasource": "my_glue", "lang": "sql", "query": "SELECT 1"}) + "\n"
    response = node.http.post(BASE, content=body, headers={"Content-Type": content_type})
    assert response.status_code == 201, response.text


def test_a_missing_token_gets_an_error_in_the_format_of_opensearch(start_node: StartNode) -> None:
    node = start_node(token="secret")
    response = node.http.get(f"{BASE}/x")
    expect_error(response, 401, "Unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"
    node.http.headers["Authorization"] = "Bearer secret"
    expect_error(node.http.get(f"{BASE}/x"), 400, "AsyncQueryNotFoundException")


def test_an_expired_result_gets_410(node: InProcessNode) -> None:
    query_id = complete_query(node, inline_result([("n", "integer")], [[1]]))
    with node.database.write("test") as tx:
        results.mark_gone(tx, query_id)
    expect_error(node.http.get(f"{BASE}/{query_id}"), 410, "ResultGone")


def test_the_errors_are_in_the_openapi_document(node: InProcessNode) -> None:
    schema = node.http.get("/api/v1/openapi.json").json()
    for path in (BASE, f"{BASE}/{{query_id}}"):
        for operation in schema["paths"][path].values():
            content = operation["responses"]["400"]["content"]
            assert json.dumps(content).count("OpenSearchError") == 1
