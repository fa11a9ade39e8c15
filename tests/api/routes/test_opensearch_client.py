"""OpenSearch's own Python client works with the async query API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from opensearchpy import OpenSearch, RequestError
from tests.support.in_process_node import InProcessNode
from tests.support.made_results import inline_result

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState

BASE = "/_plugins/_async_query"


@pytest.fixture
def client(node: InProcessNode) -> Iterator[OpenSearch]:
    url = urlsplit(node.address)
    client = OpenSearch(hosts=[{"host": url.hostname, "port": url.port}])
    yield client
    client.close()


def call(client: OpenSearch, method: str, path: str = "", body: Any = None) -> Any:
    return client.transport.perform_request(method, f"{BASE}{path}", body=body)


def test_the_client_submits_a_query_and_reads_its_rows(
    node: InProcessNode, client: OpenSearch
) -> None:
    body = {"datasource": "my_glue", "lang": "sql", "query": "SELECT 1 AS x"}
    created = call(client, "POST", body=body)
    path = f"/{created['queryId']}"
    assert call(client, "GET", path)["status"].lower() == "waiting"

    driver = node.launcher.connect_driver(created["sessionId"])
    driver.hello()
    driver.claim()
    driver.report_start(created["queryId"])
    assert call(client, "GET", path) == {"status": "running"}
    driver.succeed(created["queryId"], inline_result([("x", "integer")], [[1], [2]]))
    assert call(client, "GET", path) == {
        "status": "SUCCESS",
        "schema": [{"name": "x", "type": "integer"}],
        "datarows": [[1], [2]],
        "total": 2,
        "size": 2,
    }
    second = call(client, "POST", body={**body, "sessionId": created["sessionId"]})
    assert second["sessionId"] == created["sessionId"]


def test_the_client_cancels_a_query_once(node: InProcessNode, client: OpenSearch) -> None:
    body = {"datasource": "my_glue", "lang": "sql", "query": "SELECT 1 AS x"}
    created = call(client, "POST", body=body)
    path = f"/{created['queryId']}"
    assert not call(client, "DELETE", path)
    assert call(client, "GET", path) == {"status": "cancelled"}
    with pytest.raises(RequestError) as caught:
        call(client, "DELETE", path)
    assert caught.value.status_code == 400
    assert caught.value.info["error"]["type"] == "IllegalStateException"


def test_the_client_reads_the_error_of_a_failed_query(
    node: InProcessNode, client: OpenSearch
) -> None:
    body = {"datasource": "my_glue", "lang": "sql", "query": "SELEC 1"}
    created = call(client, "POST", body=body)
    driver = node.launcher.connect_driver(created["sessionId"])
    driver.hello()
    driver.claim()
    failure = Failure(code="parse_error", message="Syntax error at or near 'SELEC'")
    driver.report_end(created["queryId"], StatementState.FAILED, failure=failure)
    assert call(client, "GET", f"/{created['queryId']}") == {
        "status": "FAILED",
        "error": "Syntax error at or near 'SELEC'",
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("GET", "/nonsense", None, "AsyncQueryNotFoundException"),
        ("DELETE", "/nonsense", None, "AsyncQueryNotFoundException"),
        ("POST", "", {"datasource": "d", "lang": "ppl", "query": "x"}, "IllegalArgumentException"),
        ("POST", "", {"datasource": "d", "lang": "sql", "sql": "x"}, "IllegalArgumentException"),
    ],
)
def test_the_client_raises_a_request_error_for_a_refused_call(
    client: OpenSearch, method: str, path: str, body: Any, kind: str
) -> None:
    with pytest.raises(RequestError) as caught:
        call(client, method, path, body)
    assert caught.value.status_code == 400
    assert caught.value.info["error"]["type"] == kind
