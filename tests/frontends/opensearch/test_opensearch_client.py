"""OpenSearch's own Python client works with the async query API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from opensearchpy import AuthenticationException, OpenSearch, RequestError
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.made_results import inline_result

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState

BASE = "/_plugins/_async_query"


@pytest.fixture
def client(node: InProcessNode) -> Iterator[OpenSearch]:
    url = urlsplit(node.address)
    client = OpenSearch(hosts=[{"host": url.hostname, "port": url.port}], timeout=60)
    yield client
    client.close()


def call(client: OpenSearch, method: str, path: str = "", body: Any = None) -> Any:
    return client.transport.perform_request(method, f"{BASE}{path}", body=body)


@pytest.mark.finding("U12")
def test_the_client_pings_the_node_and_reads_its_version(
    node: InProcessNode, client: OpenSearch
) -> None:
    assert client.ping() is True
    info = client.info()
    assert info["name"] == node.node.id
    assert info["version"]["distribution"] == "opensearch"
    assert [int(part) for part in info["version"]["number"].split(".")] == [3, 0, 0]
    assert info["tagline"].startswith("Headrace ")


@pytest.mark.finding("U12")
def test_the_client_needs_the_token_for_ping_and_info(start_node: StartNode) -> None:
    url = urlsplit(start_node(token="secret").address)
    host = {"host": url.hostname, "port": url.port}
    with OpenSearch(hosts=[host], timeout=60) as without_token:
        assert without_token.ping() is False
        with pytest.raises(AuthenticationException) as caught:
            without_token.info()
        assert caught.value.info["error"]["type"] == "Unauthorized"
    with OpenSearch(hosts=[host], headers={"Authorization": "Bearer secret"}, timeout=60) as client:
        assert client.ping() is True
        assert client.info()["cluster_name"] == "headrace"


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
    failure = Failure(
        code="parse_error",
        message="Syntax error at or near 'SELEC'",
        condition="PARSE_SYNTAX_ERROR",
    )
    driver.report_end(created["queryId"], StatementState.FAILED, failure=failure)
    assert call(client, "GET", f"/{created['queryId']}") == {
        "status": "FAILED",
        "error": "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'",
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
